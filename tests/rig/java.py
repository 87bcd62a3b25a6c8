"""Java programs with libraries from Maven's repository, which are fetched once below target."""

import os
import shutil
import subprocess

from . import servers

CONNECTOR = 'com.zendesk:mysql-binlog-connector-java:0.29.2'
COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy'


def is_here():
    return all(shutil.which(program) for program in ('mvn', 'javac', 'java'))


def program(source, artifact=CONNECTOR):
    """Compiles a program of one file. Returns the command that runs it."""
    folder = os.path.join(servers.TARGET, 'java')
    group, name, version = artifact.split(':')
    jar = os.path.join(folder, f'{name}-{version}.jar')
    if not os.path.exists(jar):
        fetch = ['mvn', '-q', '-B', COPY, f'-Dartifact={artifact}', f'-DoutputDirectory={folder}']
        subprocess.run(fetch, check=True)
    subprocess.run(['javac', '-cp', jar, '-d', folder, source], check=True)
    main = os.path.splitext(os.path.basename(source))[0]
    return ['java', '-cp', f'{jar}:{folder}', main]
