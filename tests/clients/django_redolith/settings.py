"""Settings of Django's own tests: both databases on the server at SUITE_SOCKET."""

import os


def database(name):
    return {
        'ENGINE': 'django_redolith',
        'HOST': os.environ['SUITE_SOCKET'],
        'USER': 'root',
        'NAME': name,
        'TEST': {'CHARSET': 'utf8mb4', 'COLLATION': 'utf8mb4_general_ci'},
    }


DATABASES = {'default': database('django'), 'other': database('django_other')}
SECRET_KEY = 'django_tests_secret_key'
PASSWORD_HASHERS = ['django.contrib.auth.hashers.MD5PasswordHasher']
DEFAULT_AUTO_FIELD = 'django.db.models.AutoField'
USE_TZ = False
TEST_RUNNER = 'django_redolith.results.Runner'
