"""Products of matrices, and what is done to a matrix: solving, factorizing, inverting."""

from __future__ import annotations

from trueline.ops.catalogue.language import I, Row, T, Z, arriving, each, forward, op

_REGULAR = "invertible"

PRODUCTS: list[Row] = [
    *[
        row
        for api in ("torch.matmul", "torch.Tensor.matmul", "torch.Tensor.__matmul__", "torch.linalg.matmul")
        for row in (
            op(api, T(32, 48), T(48, 24)),
            op(api, T(17, 31), T(31, 13)),
            op(api, T(4, 9, 33), T(4, 33, 7)),
            op(api, T(3, 1, 9, 8), T(2, 8, 5)),
            op(api, T(33), T(33)),
            op(api, T(9, 33), T(33)),
            op(api, T(33), T(4, 33, 5)),
            op(api, T(16, 24, layout="turned"), T(24, 8, layout="turned")),
            op(api, T(5, 0), T(0, 4)),
            op(api, T(0, 5), T(5, 4)),
            op(api, T(8, 2048), T(2048, 8)),
        )
    ],
    op("torch.matmul", T(8, 2048, of="positive"), T(2048, 8, of="positive")),
    op("torch.matmul", T(8, 300, of="large"), T(300, 8, of="large")),
    op("torch.matmul", T(8, 33, of="normal nan(0.01)"), T(33, 8)),
    op("torch.matmul", Z(8, 9), Z(9, 7)),
    op("torch.matmul", I(8, 9, of="normal"), I(9, 7, of="normal")),
    op("torch.Tensor.__rmatmul__", T(9, 7), T(8, 9)),
    *[
        row
        for api in ("torch.mm", "torch.Tensor.mm")
        for row in (
            op(api, T(32, 48), T(48, 24)),
            op(api, T(1, 1000), T(1000, 1)),
            op(api, T(7, 5, layout="turned"), T(5, 3)),
        )
    ],
    *[
        row
        for api in ("torch.bmm", "torch.Tensor.bmm")
        for row in (
            op(api, T(4, 9, 33), T(4, 33, 7)),
            op(api, T(1, 65, 128), T(1, 128, 3)),
            op(api, T(0, 3, 4), T(0, 4, 5)),
        )
    ],
    *[op(api, T(9, 33), T(33)) for api in ("torch.mv", "torch.Tensor.mv")],
    *[
        row
        for api in ("torch.dot", "torch.Tensor.dot", "torch.vdot", "torch.inner")
        for row in (
            op(api, T(1001), T(1001)),
            op(api, T(8192, of="positive"), T(8192, of="positive")),
            op(api, T(0), T(0)),
        )
    ],
    op("torch.vdot", Z(33), Z(33)),
    op("torch.inner", T(5, 9), T(4, 9)),
    op("torch.linalg.vecdot", T(5, 9), T(5, 9)),
    op("torch.linalg.vecdot", T(9, 5), T(9, 5), dim=0),
    *each("torch.outer torch.ger torch.Tensor.outer", T(9), T(14)),
    *[
        row
        for api in ("torch.addmm", "torch.Tensor.addmm", "torch.Tensor.addmm_")
        for row in (
            op(api, T(9, 7), T(9, 33), T(33, 7)),
            op(api, T(9, 7), T(9, 33), T(33, 7), beta=0.3, alpha=1.7),
            op(api, T(9, 7, of="normal nan(0.3)"), T(9, 3), T(3, 7), beta=0),
        )
    ],
    op("torch.addmm", T(7), T(9, 33), T(33, 7)),
    op("torch.addmv", T(9), T(9, 33), T(33), beta=0.5, alpha=2),
    op("torch.addmv", T(9), T(9, 33), T(33)),
    op("torch.addr", T(9, 7), T(9), T(7), beta=0.5, alpha=2),
    op("torch.addbmm", T(9, 7), T(4, 9, 11), T(4, 11, 7), beta=0.5),
    op("torch.baddbmm", T(4, 9, 7), T(4, 9, 11), T(4, 11, 7)),
    op("torch.baddbmm", T(1, 7), T(4, 9, 11), T(4, 11, 7), beta=0.3, alpha=1 / 8),
    op("torch.Tensor.baddbmm", T(4, 9, 7), T(4, 9, 11), T(4, 11, 7)),
    *[
        op("torch.einsum", equation, *operands)
        for equation, operands in (
            ("ij,jk->ik", (T(9, 33), T(33, 7))),
            ("bij,bjk->bik", (T(4, 9, 11), T(4, 11, 7))),
            ("bhqd,bhkd->bhqk", (T(2, 3, 5, 16), T(2, 3, 7, 16))),
            ("i,j->ij", (T(9), T(7))),
            ("ii->i", (T(6, 6),)),
            ("ij->", (T(9, 33),)),
            ("ij,jk,kl->il", (T(5, 6), T(6, 7), T(7, 4))),
            ("...d,ed->...e", (T(2, 3, 9), T(5, 9))),
        )
    ],
    op("torch.tensordot", T(3, 4, 5), T(4, 5, 6), dims=2),
    op("torch.tensordot", T(3, 4, 5), T(5, 3, 6), dims=([0, 2], [1, 0])),
    op("torch.kron", T(3, 4), T(5, 2)),
    op("torch.kron", T(3), T(2, 4)),
    op("torch.chain_matmul", T(3, 9), T(9, 5), T(5, 4)),
    op("torch.linalg.multi_dot", [T(3, 9), T(9, 5), T(5, 4)]),
    op("torch.linalg.multi_dot", [T(9), T(9, 5), T(5)]),
    op("torch.linalg.cross", T(6, 3), T(6, 3)),
    op("torch.cross", T(3, 6), T(3, 6), dim=0),
    op("torch.linalg.matrix_power", T(3, 6, 6, of=_REGULAR), 3),
    op("torch.linalg.matrix_power", T(5, 5, of=_REGULAR), -2),
    op("torch.matrix_power", T(5, 5, of=_REGULAR), 0),
    op("torch.linalg.matrix_exp", T(3, 6, 6, of="normal scaled(0.4)")),
    op("torch.matrix_exp", T(5, 5, of="normal scaled(2)")),
    op("torch.vander", T(6, grad=False)),
    op("torch.linalg.vander", T(6, of="unit_open"), N=4),
]

SOLUTIONS: list[Row] = [
    *[
        row
        for api in (
            "torch.linalg.inv",
            "torch.inverse",
            "torch.linalg.det",
            "torch.det",
            "torch.linalg.slogdet",
            "torch.slogdet",
        )
        for row in (op(api, T(9, 9, of=_REGULAR)), op(api, T(3, 5, 5, of=_REGULAR)), op(api, T(1, 1, of=_REGULAR)))
    ],
    op("torch.linalg.inv", T(33, 33, of=_REGULAR)),
    op("torch.linalg.inv", Z(5, 5, of=_REGULAR)),
    op("torch.linalg.inv", T(6, 6, of=_REGULAR, layout="turned")),
    op("torch.linalg.inv", T(0, 0)),
    op("torch.linalg.inv_ex", T(3, 5, 5, of=_REGULAR)),
    op("torch.logdet", T(9, 9, of="positive_definite")),
    op("torch.linalg.solve", T(9, 9, of=_REGULAR), T(9, 4)),
    op("torch.linalg.solve", T(3, 5, 5, of=_REGULAR), T(3, 5)),
    op("torch.linalg.solve", T(5, 5, of=_REGULAR), T(2, 5), left=False),
    op("torch.linalg.solve_ex", T(9, 9, of=_REGULAR), T(9, 4)),
    op("torch.linalg.solve_triangular", T(9, 9, of="upper_triangular"), T(9, 4), upper=True),
    op("torch.linalg.solve_triangular", T(2, 9, 9, of="lower_triangular"), T(2, 9, 4), upper=False),
    op("torch.linalg.solve_triangular", T(9, 9, of="lower_triangular"), T(4, 9), upper=False, left=False),
    op("torch.linalg.solve_triangular", T(9, 9, of="lower_triangular"), T(9, 4), upper=False, unitriangular=True),
    op("torch.triangular_solve", T(9, 4), T(9, 9, of="upper_triangular")),
    op("torch.linalg.lstsq", T(12, 5, of=_REGULAR), T(12, 3)),
    op("torch.linalg.lstsq", T(2, 7, 7, of=_REGULAR), T(2, 7, 1)),
    op("torch.linalg.pinv", T(9, 5, of=_REGULAR)),
    op("torch.linalg.pinv", T(5, 5, of="positive_definite"), hermitian=True),
    op("torch.pinverse", T(5, 9, of=_REGULAR)),
    op("torch.linalg.tensorinv", T(4, 6, 8, 3, of="normal"), ind=2),
    op("torch.linalg.tensorsolve", T(2, 3, 6), T(2, 3)),
    *[op(api, T(4, 3), T(4, 4, of="lower_triangular")) for api in ("torch.cholesky_solve",)],
    op("torch.cholesky_solve", T(4, 3), T(4, 4, of="upper_triangular"), upper=True),
    op("torch.cholesky_inverse", T(4, 4, of="lower_triangular")),
    op("torch.linalg.lu_solve", T(5, 5, of="packed_factors"), I(5, of="pivots(5)", dtype="int32"), T(5, 2)),
    op("torch.lu_solve", T(5, 2), T(5, 5, of="packed_factors"), I(5, of="pivots(5)", dtype="int32")),
]

FACTORS: list[Row] = [
    *[
        row
        for api in ("torch.linalg.cholesky", "torch.cholesky", "torch.linalg.cholesky_ex")
        for row in (
            op(api, T(9, 9, of="positive_definite")),
            op(api, T(3, 5, 5, of="positive_definite")),
            op(api, T(5, 5, of="positive_definite"), upper=True),
        )
    ],
    op("torch.linalg.cholesky", Z(5, 5, of="positive_definite")),
    *[
        row
        for api in ("torch.linalg.qr", "torch.qr")
        for row in (op(api, T(9, 5, of=_REGULAR)), op(api, T(3, 6, 6, of=_REGULAR)), op(api, T(4, 9, of=_REGULAR)))
        if not (api == "torch.qr" and row.args[0].shape == (4, 9))
    ],
    forward("torch.linalg.qr", T(9, 5, of=_REGULAR), mode="complete"),
    op("torch.linalg.qr", Z(5, 5, of=_REGULAR)),
    op("torch.linalg.svd", T(9, 5, of=_REGULAR), full_matrices=False),
    arriving(op("torch.linalg.svd", T(9, 5, of=_REGULAR), full_matrices=False), out_1=T(5)),
    arriving(op("torch.linalg.svd", T(3, 6, 6, of=_REGULAR)), out_1=T(3, 6)),
    op("torch.linalg.svd", T(3, 5, 7, of=_REGULAR), full_matrices=False),
    forward("torch.linalg.svd", T(9, 5, of=_REGULAR)),
    forward("torch.linalg.svd", Z(6, 4, of=_REGULAR), full_matrices=False),
    op("torch.svd", T(9, 5, of=_REGULAR)),
    arriving(op("torch.svd", T(9, 5, of=_REGULAR)), out_1=T(5)),
    op("torch.svd", T(5, 5, of=_REGULAR), some=True),
    *[
        row
        for api in ("torch.linalg.svdvals",)
        for row in (op(api, T(9, 5, of=_REGULAR)), op(api, T(3, 6, 6, of=_REGULAR)), op(api, T(20, 33)))
    ],
    arriving(op("torch.linalg.eigh", T(9, 9, of="symmetric")), out_0=T(9)),
    arriving(op("torch.linalg.eigh", T(3, 5, 5, of="symmetric"), "U"), out_0=T(3, 5)),
    forward("torch.linalg.eigh", Z(5, 5, of="symmetric")),
    op("torch.linalg.eigvalsh", T(9, 9, of="symmetric")),
    op("torch.linalg.eigvalsh", T(3, 5, 5, of="symmetric"), UPLO="U"),
    forward("torch.linalg.eig", T(6, 6, of=_REGULAR)),
    forward("torch.linalg.eig", T(3, 4, 4)),
    forward("torch.linalg.eigvals", T(6, 6)),
    op("torch.linalg.lu_factor", T(9, 9, of=_REGULAR)),
    op("torch.linalg.lu_factor", T(3, 5, 7, of=_REGULAR)),
    op("torch.linalg.lu_factor_ex", T(9, 9, of=_REGULAR)),
    op("torch.linalg.lu", T(9, 9, of=_REGULAR)),
    op("torch.linalg.lu", T(3, 7, 5, of=_REGULAR)),
    op("torch.lu_unpack", T(5, 5, of="packed_factors"), I(5, of="pivots(5)", dtype="int32")),
    forward("torch.geqrf", T(6, 4, of=_REGULAR)),
    op("torch.linalg.householder_product", T(6, 4, of="normal scaled(0.3)"), T(4, of="uniform(0.1, 0.5)")),
    forward("torch.linalg.ldl_factor", T(5, 5, of="symmetric")),
    forward("torch.linalg.ldl_factor_ex", T(2, 5, 5, of="symmetric")),
    forward(
        "torch.linalg.ldl_solve",
        T(5, 5, of="packed_factors"),
        I(5, of="steps shifted(1)", dtype="int32"),
        T(5, 2),
    ),
    op("torch.orgqr", T(6, 4, of="normal scaled(0.3)"), T(4, of="uniform(0.1, 0.5)")),
    op("torch.ormqr", T(6, 4, of="normal scaled(0.3)"), T(4, of="uniform(0.1, 0.5)"), T(6, 3)),
    op("torch.nuclear_norm", T(6, 5, of=_REGULAR)),
    op("torch.frobenius_norm", T(6, 11), [0, 1]),
    op("torch.norm_except_dim", T(6, 5, 3), 2, 0),
    op("torch.linalg.cond", T(5, 5, of=_REGULAR)),
    forward("torch.linalg.cond", T(5, 5, of=_REGULAR), p=1),
    forward("torch.linalg.matrix_rank", T(3, 6, 5, of=_REGULAR)),
    forward("torch.linalg.matrix_rank", T(6, 6, of="positive_definite"), hermitian=True),
]

ROWS = [*PRODUCTS, *SOLUTIONS, *FACTORS]
