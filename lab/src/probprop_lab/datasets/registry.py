"""The ten benchmark sets of [PBP15]: where each comes from, what it holds, how it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from probprop._types import FloatArray
from probprop_lab.datasets.errors import DataError
from probprop_lab.datasets.parse import read_arff, read_sheet, read_text

_UCI = "https://archive.ics.uci.edu/static/public"
_CC_BY = "CC BY 4.0"
_NO_LICENSE = "none stated"


@dataclass(frozen=True)
class Source:
    """One data set as its publisher ships it.

    Parameters
    ----------
    file : str
        Name of the raw file in a folder of data.
    address : str
        Where it is downloaded from.
    sha256 : str or None
        Hash of the raw file itself, not of a zip around it. None if it is not known: then only
        the number of rows and columns is verified.
    read : callable
        Turns the raw file into a table, ndarray of shape `shape`.
    shape : tuple of int
        Rows and columns of that table.
    target_column : int
    feature_columns : slice
    feature_names : tuple of str
        As many as there are feature columns.
    target : str
        Name of the target, with its unit where it has one.
    citation, license : str
    member : str, optional
        Name of the raw file inside the zip that `address` gives; None where it gives the file.
    decimals : tuple of (int or None), default=(None, None)
        Features and target are rounded half-up to this number of decimals, as in the copy that the
        literature uses; None leaves them.
    parsed_sha256 : tuple of str, optional
        Of X and of y as little-endian float64 in C order.
    n_splits : int, default=20
        Random splits of the fixed protocol.
    n_train : int, optional
        The set has one official split instead: the first `n_train` rows train, the rest test.
    """

    file: str
    address: str
    sha256: str | None
    read: Callable[[Path], FloatArray]
    shape: tuple[int, int]
    target_column: int
    feature_columns: slice
    feature_names: tuple[str, ...]
    target: str
    citation: str
    license: str
    member: str | None = None
    decimals: tuple[int | None, int | None] = (None, None)
    parsed_sha256: tuple[str, str] | None = None
    n_splits: int = 20
    n_train: int | None = None


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ALL_BUT_LAST, _ALL_BUT_FIRST = slice(None, -1), slice(1, None)

SOURCES: dict[str, Source] = {
    "boston_housing": Source(
        file="housing.data",
        address="https://archive.ics.uci.edu/ml/machine-learning-databases/housing/housing.data",
        sha256="baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        read=read_text,
        shape=(506, 14),
        target_column=-1,  # capped at 50
        feature_columns=_ALL_BUT_LAST,
        feature_names=_names("CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT"),
        target="MEDV (1000 $)",
        citation="Harrison, D. and Rubinfeld, D. L. (1978). Hedonic housing prices and the demand "
        "for clean air. Journal of Environmental Economics and Management 5, 81-102.",
        license=_NO_LICENSE,
        parsed_sha256=(
            "58d9abef45a8e00c844d74ff0027c96d21a8a237d7ba7e4c0c30b11dcdafde10",
            "a7a4a2bed7266f5e88acd2854ae97af5206bed564ab217810535d4cd14d76edb",
        ),
    ),
    "concrete": Source(
        file="Concrete_Data.xls",
        address=f"{_UCI}/165/concrete+compressive+strength.zip",
        member="Concrete_Data.xls",
        sha256="dd8ddf9681036035f564c7006837998bae2dd7029b9d591ee8bbee1eeb30deeb",
        read=read_sheet,
        shape=(1030, 9),
        target_column=-1,
        feature_columns=_ALL_BUT_LAST,
        feature_names=(
            "cement",
            "blast_furnace_slag",
            "fly_ash",
            "water",
            "superplasticizer",
            "coarse_aggregate",
            "fine_aggregate",
            "age",
        ),
        target="compressive strength (MPa)",
        citation="Yeh, I.-C. (1998). Modeling of strength of high-performance concrete using "
        "artificial neural networks. Cement and Concrete Research 28(12), 1797-1808.",
        license=_CC_BY,
        decimals=(1, 2),
        parsed_sha256=(
            "c4f7f8fda5b3d88e68498336fd4c640b7c7215e13e58be2549e1d4251d005f26",
            "6a51bf86903430946bc63cad7bd665ee89132a2bb413172e60b7afe14800f013",
        ),
    ),
    "energy": Source(
        file="ENB2012_data.xlsx",
        address=f"{_UCI}/242/energy+efficiency.zip",
        member="ENB2012_data.xlsx",
        sha256="0089fcffc1415e41e2ff63730cca5280efe54fc43d722dfde1b0aaa808e35dc4",
        read=read_sheet,
        shape=(768, 10),
        target_column=8,  # Y1; the last column, Y2, is the cooling load
        feature_columns=slice(8),
        feature_names=(
            "relative_compactness",
            "surface_area",
            "wall_area",
            "roof_area",
            "overall_height",
            "orientation",
            "glazing_area",
            "glazing_area_distribution",
        ),
        target="heating load (kWh/m²)",
        citation="Tsanas, A. and Xifara, A. (2012). Accurate quantitative estimation of energy "
        "performance of residential buildings using statistical machine learning tools. Energy "
        "and Buildings 49, 560-567.",
        license=_CC_BY,
        decimals=(None, 2),
        parsed_sha256=(
            "394f967b71ba5a86a0eec3d218a9bdba1d035895c4d9f2223dfd8d64f93258fe",
            "79a552da5262251cc9509e6c184f84db3cf9a62a1a41e993b0023f2ba9a1fe22",
        ),
    ),
    "kin8nm": Source(
        file="kin8nm.arff",
        address="https://www.openml.org/data/download/3626/dataset_2175_kin8nm.arff",
        sha256="64a4d839e3ce2fd57f57a21d612392170a57f9612fdd56a8fc35b4e7a5d59881",
        read=read_arff,
        shape=(8192, 9),
        target_column=-1,
        feature_columns=_ALL_BUT_LAST,
        feature_names=tuple(f"theta{i}" for i in range(1, 9)),
        target="y",
        citation="Rasmussen, C. E., Neal, R. M., Hinton, G. E., van Camp, D., Revow, M., "
        "Ghahramani, Z., Kustra, R. and Tibshirani, R. (1996). The DELVE manual, version 1.1. "
        "University of Toronto.",
        license=_NO_LICENSE,
        parsed_sha256=(
            "40fe658abf608fb41492e445d8e89d3a5f5daeee62e29ebdac02f329f1cf6dff",
            "a16dfbf651526e3e7a7543c7ba12c93e50ca2baecd284e62671fad99b9ea1fb4",
        ),
    ),
    "naval_propulsion": Source(
        file="naval_data.txt",
        address=f"{_UCI}/316/condition+based+maintenance+of+naval+propulsion+plants.zip",
        member="data.txt",
        sha256="de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
        read=read_text,
        shape=(11934, 18),
        target_column=16,  # the last column is the decay of the turbine
        feature_columns=slice(16),
        # T1 and P1 are constant, Ts equals Tp.
        feature_names=_names("lever v GTT GTn GGn Ts Tp T48 T1 T2 P48 P1 P2 Pexh TIC fuel_flow"),
        target="compressor decay state coefficient",
        citation="Coraddu, A., Oneto, L., Ghio, A., Savio, S., Anguita, D. and Figari, M. (2016). "
        "Machine learning approaches for improving condition-based maintenance of naval "
        "propulsion plants. Journal of Engineering for the Maritime Environment 230(1), 136-153.",
        license=_CC_BY,
        parsed_sha256=(
            "7206828144245475bf4d7620d12cea8378b4212866a7c9e94ab49a02a0402b8b",
            "325f8fec7abe20a5df9a4767ae05c26576320c1df2f9d24b176e7a2941ed6e47",
        ),
    ),
    "power_plant": Source(
        file="Folds5x2_pp.xlsx",
        address=f"{_UCI}/294/combined+cycle+power+plant.zip",
        member="Folds5x2_pp.xlsx",
        sha256="ccd490981db2a2f079963b3d9f0aea30d9d338900a0285428dfc6385396f4651",
        # All five sheets hold the same rows shuffled; the splits hold for the order of this one.
        read=partial(read_sheet, sheet="Sheet5"),
        shape=(9568, 5),
        target_column=-1,
        feature_columns=_ALL_BUT_LAST,
        feature_names=("AT", "V", "AP", "RH"),
        target="PE (MW)",
        citation="Tüfekci, P. (2014). Prediction of full load electrical power output of a base "
        "load operated combined cycle power plant using machine learning methods. International "
        "Journal of Electrical Power and Energy Systems 60, 126-140.",
        license=_CC_BY,
        parsed_sha256=(
            "738126c94648654d3ac7514716695c19957f4bb8e8ecdff7b8a2c61ffb858bb7",
            "b84c1488b08e6ec560bbabfc57013ca515259eaa0abc7dafec26b31a2c484424",
        ),
    ),
    "protein": Source(
        file="CASP.csv",
        address=f"{_UCI}/265/physicochemical+properties+of+protein+tertiary+structure.zip",
        member="CASP.csv",
        sha256="4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40",
        read=partial(read_text, delimiter=",", header=1),
        shape=(45730, 10),
        target_column=0,
        feature_columns=_ALL_BUT_FIRST,
        feature_names=tuple(f"F{i}" for i in range(1, 10)),
        target="RMSD (Å)",
        citation="Rana, P. (2013). Physicochemical properties of protein tertiary structure. UCI "
        "Machine Learning Repository.",
        license=_CC_BY,
        parsed_sha256=(
            "b191e61db326c95c38cbfdc8f963abd6a78018de5b3dcac60f2f9112859abd06",
            "3c467e6bbcc4f151c7f8536c1296b4513035b83e7bdc3464e57b7dc4b0264d95",
        ),
        n_splits=5,
    ),
    "wine_red": Source(
        file="winequality-red.csv",
        address=f"{_UCI}/186/wine+quality.zip",
        member="winequality-red.csv",
        sha256="4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
        read=partial(read_text, delimiter=";", header=1),
        shape=(1599, 12),
        target_column=-1,
        feature_columns=_ALL_BUT_LAST,
        feature_names=(
            "fixed_acidity",
            "volatile_acidity",
            "citric_acid",
            "residual_sugar",
            "chlorides",
            "free_sulfur_dioxide",
            "total_sulfur_dioxide",
            "density",
            "pH",
            "sulphates",
            "alcohol",
        ),
        target="quality",
        citation="Cortez, P., Cerdeira, A., Almeida, F., Matos, T. and Reis, J. (2009). Modeling "
        "wine preferences by data mining from physicochemical properties. Decision Support "
        "Systems 47(4), 547-553.",
        license=_CC_BY,
        parsed_sha256=(
            "9f40e7499030fb1aebbaed39a614fdac96d1c997b6abad2502f6386d1734ed9b",
            "857552cf21124c681133662195ef3c2115025105d510d53a2929ca0c4907f097",
        ),
    ),
    "yacht": Source(
        file="yacht_hydrodynamics.data",
        address=f"{_UCI}/243/yacht+hydrodynamics.zip",
        member="yacht_hydrodynamics.data",
        sha256="00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
        read=read_text,
        shape=(308, 7),
        target_column=-1,
        feature_columns=_ALL_BUT_LAST,
        feature_names=(
            "centre_of_buoyancy",
            "prismatic_coefficient",
            "length_displacement_ratio",
            "beam_draught_ratio",
            "length_beam_ratio",
            "froude_number",
        ),
        target="residuary resistance",
        citation="Gerritsma, J., Onnink, R. and Versluis, A. (1981). Geometry, resistance and "
        "stability of the Delft systematic yacht hull series. International Shipbuilding "
        "Progress 28(328), 276-297.",
        license=_CC_BY,
        parsed_sha256=(
            "cfee469bd75844078732e2197f89767cf7c3feb11848e40b7085ea648898da72",
            "830b8fefb460a74aeeb6d46aa8869501ddcd9d97cd12d64b05461b95fc4793c2",
        ),
    ),
    "year_prediction_msd": Source(
        file="YearPredictionMSD.txt",
        address=f"{_UCI}/203/yearpredictionmsd.zip",
        member="YearPredictionMSD.txt",
        sha256=None,
        read=partial(read_text, delimiter=","),
        shape=(515345, 91),
        target_column=0,
        feature_columns=_ALL_BUT_FIRST,
        feature_names=(
            *(f"timbre_mean_{i}" for i in range(1, 13)),
            *(f"timbre_covariance_{i}" for i in range(1, 79)),
        ),
        target="year",
        citation="Bertin-Mahieux, T., Ellis, D. P. W., Whitman, B. and Lamere, P. (2011). The "
        "Million Song Dataset. Proceedings of the 12th International Society for Music "
        "Information Retrieval Conference, 591-596.",
        license=_CC_BY,
        n_splits=1,
        n_train=463715,  # no song of one artist is on both sides
    ),
}

NAMES = tuple(SOURCES)
"""The ten sets of [PBP15], in the order of its tables."""


def find_source(name: str) -> Source:
    """Return the source of a data set, or raise `DataError` with the names there are."""
    if name not in SOURCES:
        raise DataError(f"there is no data set {name!r}: choose one of {', '.join(SOURCES)}")
    return SOURCES[name]
