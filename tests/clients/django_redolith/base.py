"""Django's MySQL backend without what the server refuses on purpose. Only what the tests would set
up for nearly every model is switched off: foreign keys, generated columns and functional indexes.
Django then makes no such constraint, and leaves out the tests that are about them alone. Nothing
here changes a statement or a result.
"""

from django.db.backends.mysql import base, features


class DatabaseFeatures(features.DatabaseFeatures):
    supports_foreign_keys = False
    can_introspect_foreign_keys = False
    supports_stored_generated_columns = False
    supports_virtual_generated_columns = False
    supports_expression_indexes = False
    supports_explain_analyze = False
    # Django's own choice is collations for Esperanto and Swedish.
    test_collations = {
        'ci': 'utf8mb4_general_ci',
        'non_default': 'utf8mb4_bin',
        'swedish_ci': None,
        'virtual': 'utf8mb4_bin',
    }


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures
