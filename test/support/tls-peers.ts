/** The programs of tests that are one side of TLS handshakes. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

export type PeerProgram = 'openssl' | 'nginx' | 'python' | 'java' | 'curl';

const EXECUTABLES: Readonly<Record<PeerProgram, string>> = {
  openssl: 'openssl',
  nginx: 'nginx',
  curl: 'curl',
  python: 'python3',
  java: 'javac',
};

export function isInstalled(program: PeerProgram): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${EXECUTABLES[program]}`]);
    return true;
  } catch {
    console.log(
      `${EXECUTABLES[program]} is not installed, so ${program} is left out: scripts/install-test-tools.sh`,
    );
    return false;
  }
}

const SOURCES = join(import.meta.dirname, 'tls-peers');

/** The command of a peer that is written in this language. @param folder for compiled code */
export function peerCommand(language: 'python' | 'java', folder: string): readonly [string, ...string[]] {
  if (language === 'python') return ['python3', join(SOURCES, 'peer.py')];
  if (!existsSync(join(folder, 'Peer.class')))
    execFileSync('javac', ['-d', folder, join(SOURCES, 'Peer.java')]);
  // With the second compiler: without it, a handshake costs a server three times as much.
  return ['java', '-XX:+UseSerialGC', '-Xmx64m', '-cp', folder, 'Peer'];
}
