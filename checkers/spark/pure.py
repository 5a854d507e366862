"""What SQL may consist of that acked did not write itself: names of functions, and of nodes of Spark's plans.

A query of this kind computes values from registered tables and from constants. It reads no file, starts no
program, calls no Java method, and depends on nothing but the tables. Whatever is not listed here is refused,
so that what a later Spark adds is refused too.
"""

from __future__ import annotations


def _names(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


FUNCTIONS = _names(
    # aggregates
    "any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and",
    "bool_or collect_list collect_set corr count count_if covar_pop covar_samp every first first_value",
    "grouping grouping_id histogram_numeric kurtosis last last_value listagg max max_by mean median min",
    "min_by mode percentile percentile_approx percentile_cont percentile_disc regr_count regr_intercept",
    "regr_r2 regr_slope skewness some std stddev stddev_pop stddev_samp string_agg sum try_avg try_sum",
    "var_pop var_samp variance",
    # windows
    "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number",
    # conditions and types
    "assert_true between bigint binary boolean cast coalesce date decimal double equal_null float greatest",
    "if ifnull int isnan isnotnull isnull least nanvl nullif nullifzero nvl nvl2 raise_error smallint string",
    "timestamp tinyint try_to_number typeof zeroifnull",
    # numbers
    "abs acos asin atan atan2 bin bit_count bround cbrt ceil ceiling conv cos cot crc32 degrees div e exp",
    "expm1 factorial floor getbit hash hex hypot ln log log10 log1p log2 md5 mod negative pi pmod positive",
    "pow power radians rint round sha1 sha2 shiftleft shiftright sign signum sin sqrt tan tanh to_number",
    "try_add try_divide try_mod try_multiply try_subtract unhex width_bucket xxhash64",
    # texts
    "ascii base64 btrim char char_length character_length chr concat concat_ws contains decode elt encode",
    "endswith find_in_set format_number format_string ilike initcap instr lcase left len length levenshtein",
    "like locate lower lpad ltrim mask octet_length overlay position printf regexp regexp_count",
    "regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr replace reverse",
    "right rlike rpad rtrim split split_part startswith substr substring substring_index to_char to_varchar",
    "translate trim ucase unbase64 upper",
    # times
    "add_months date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc datediff",
    "datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime hour last_day make_date",
    "make_interval make_timestamp minute month monthname months_between next_day quarter second",
    "timestamp_micros timestamp_millis timestamp_seconds to_date to_timestamp to_unix_timestamp trunc",
    "try_to_timestamp unix_date unix_micros unix_millis unix_seconds weekday weekofyear year",
    # lists, maps and structs
    "aggregate array array_append array_compact array_contains array_distinct array_except array_insert",
    "array_intersect array_join array_max array_min array_position array_prepend array_remove array_size",
    "array_sort array_union arrays_overlap arrays_zip cardinality element_at exists explode explode_outer",
    "filter flatten forall get inline inline_outer map map_concat map_contains_key map_entries map_filter",
    "map_from_arrays map_from_entries map_keys map_values map_zip_with named_struct posexplode",
    "posexplode_outer reduce sequence size slice sort_array stack struct transform transform_keys",
    "transform_values try_element_at zip_with",
    # JSON and CSV in columns
    "from_csv from_json get_json_object json_array_length json_object_keys json_tuple to_csv to_json",
)
"""Functions whose result follows from their arguments.

Left out are `repeat`, `space`, `array_repeat` and `range`, which make any amount of data out of nothing, and
parsers of XML, Avro and Protobuf, which open files.
"""

STATE = _names(
    "current_catalog current_database current_date current_path current_schema current_time",
    "current_timestamp current_user grouping__id localtime localtimestamp session_user user",
)
"""Names that Spark takes for functions even without brackets; their value depends on who asks and when."""

PLANS = _names(
    "Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit",
    "LocalRelation Offset OneRowRelation Project Sort SubqueryAlias Union UnresolvedHaving",
    "UnresolvedInlineTable UnresolvedRelation UnresolvedSubqueryColumnAliases UnresolvedTableValuedFunction",
    "UnresolvedTVFAliases UnresolvedWith",
)
"""Nodes of an unresolved plan: relational operators. Commands, hints, scripts and samples are left out."""

EXPRESSIONS = _names(
    "Add Alias And AttributeReference BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Coalesce",
    "Concat CreateNamedStruct Cube CurrentRow$ Divide EqualNullSafe EqualTo Exists GreaterThan",
    "GreaterThanOrEqual GroupingSets ILike In InSubquery IntegralDivide IsNotNull IsNull LambdaFunction",
    "LateralSubquery LessThan LessThanOrEqual Like LikeAll LikeAny ListQuery Literal MultiAlias Multiply",
    "Not NotLikeAll NotLikeAny Or RLike Remainder Rollup ScalarSubquery SortOrder SpecifiedWindowFrame",
    "StringLocate StringTrim StringTrimBoth StringTrimLeft StringTrimRight Substring Subtract UnaryMinus",
    "UnaryPositive UnboundedFollowing$ UnboundedPreceding$ UnresolvedAlias UnresolvedAttribute",
    "UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator UnresolvedNamedLambdaVariable",
    "UnresolvedStar UnresolvedStarExceptOrReplace UnspecifiedFrame$ WindowExpression WindowSpecDefinition",
)
"""Nodes of an expression: operators, constants and names."""
