/** What Gatehouse counts as healthy, OpenSSL, Go, Python, Node.js and Java read: each edit of a file, in each program. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { caBundle } from '../../src/pki/authority/authority.ts';
import { summarizeServingCert } from '../../src/pki/serving-certs/facts.ts';
import { readableCertificates } from '../../src/pki/x509/pem.ts';
import { base64, firstAuthority, rotated, serverOf } from '../support/pki/fixtures.ts';
import { nodeVerdict } from '../support/trust-verdicts.ts';

/** `read`: all programs read it. Others: at least one does not, or Gatehouse rewrites it to be sure. */
const EDITS: readonly (readonly [
  name: string,
  edit: (pem: string) => string,
  result: 'read' | 'lost' | 'any',
])[] = [
  ['as written', (pem) => pem, 'read'],
  ['CRLF', (pem) => pem.replaceAll('\n', '\r\n'), 'read'],
  ['no last line end', (pem) => pem.trimEnd(), 'read'],
  ['newlines removed', (pem) => pem.replaceAll('\n', ''), 'lost'],
  ['folded', (pem) => pem.replaceAll('\n', ' '), 'lost'],
  ['indented', (pem) => pem.replaceAll(/^/gm, '    '), 'lost'],
  ['prefixed', (pem) => `# api: ${pem}`, 'lost'],
  ['blank lines', (pem) => pem.replaceAll('\n', '\n\n'), 'lost'],
  ['byte order mark', (pem) => `\uFEFF${pem}`, 'lost'],
  ['joined blocks', (pem) => pem.replaceAll('-----\n-----', '----------'), 'lost'],
  ['text around', (pem) => `a comment\n${pem}`, 'any'],
  ['long lines', (pem) => pem.replaceAll(/([A-Za-z0-9+/=]{64})\n/g, '$1'), 'any'],
  ['trailing spaces', (pem) => pem.replaceAll('\n', ' \n'), 'any'],
];

const GO = `package main

import ("crypto/tls"; "crypto/x509"; "encoding/pem"; "fmt"; "os")

func main() {
	for _, file := range os.Args[1:] {
		text, _ := os.ReadFile(file + ".ca")
		pool, roots := x509.NewCertPool(), 0
		pool.AppendCertsFromPEM(text)
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if _, err := x509.ParseCertificate(block.Bytes); err == nil { roots++ }
		}
		pair, err := tls.LoadX509KeyPair(file+".crt", file+".key")
		if err != nil { pair.Certificate = nil }
		fmt.Println(roots, len(pair.Certificate))
	}
}
`;

const PYTHON = `
import ssl, sys
for file in sys.argv[1:]:
    roots = pair = 0
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(file + '.ca')
        roots = len(context.get_ca_certs())
    except ssl.SSLError: pass
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file + '.crt', file + '.key')
        pair = 2
    except ssl.SSLError: pass
    print(roots, pair)
`;

const JAVA = `
import java.io.*; import java.security.cert.*;
class Read {
  static int count(String path) {
    try (InputStream in = new FileInputStream(path)) {
      return CertificateFactory.getInstance("X.509").generateCertificates(in).size();
    } catch (Exception error) { return 0; }
  }
  public static void main(String[] files) {
    for (String file : files) System.out.println(count(file + ".ca") + " " + count(file + ".crt"));
  }
}
`;

const isInstalled = (command: string, arg: string): boolean => spawnSync(command, [arg]).status === 0;
const folder = mkdtempSync(join(tmpdir(), 'gatehouse-pem-'));
const file = (name: string) => join(folder, name);
const files = EDITS.map((_edit, index) => file(String(index)));
let bundle: string;
let chain: string;
let key: string;

beforeAll(async () => {
  const now = new Date();
  const authority = await rotated(await firstAuthority(now), now);
  const server = await serverOf(authority, now);
  bundle = caBundle(authority, now);
  chain = server.chain;
  key = server.keyPair.privateKey;
  for (const [index, [, edit]] of EDITS.entries()) {
    writeFileSync(file(`${index}.ca`), edit(bundle));
    writeFileSync(file(`${index}.crt`), edit(chain));
    writeFileSync(file(`${index}.key`), edit(key));
  }
  writeFileSync(file('read.go'), GO);
  writeFileSync(file('Read.java'), JAVA);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Counts = readonly [roots: number, chain: number];

const counts = (command: string, ...args: readonly string[]): readonly Counts[] =>
  execFileSync(command, [...args, ...files], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
    .trim()
    .split('\n')
    .map((line) => line.split(' ').map(Number) as unknown as Counts);

const certificatesOf = (path: string): number => {
  const args = ['storeutl', '-noout', '-certs', path];
  const { status, stdout } = spawnSync('openssl', args, { encoding: 'utf8' });
  return status === 0 ? Number(/Total found: (\d+)/.exec(stdout)?.[1] ?? 0) : 0;
};

async function nodeCounts(edit: (pem: string) => string): Promise<Counts> {
  const verdict = await nodeVerdict({ chain, privateKey: key }, edit(bundle), 'db.prod.svc');
  try {
    createSecureContext({ cert: edit(chain), key: edit(key) });
    return [verdict === 'ok' ? 2 : 0, 2];
  } catch {
    return [verdict === 'ok' ? 2 : 0, 0];
  }
}

const PROGRAMS = {
  openssl: () => files.map((path): Counts => [certificatesOf(`${path}.ca`), certificatesOf(`${path}.crt`)]),
  python: () => counts('python3', '-c', PYTHON),
  go: () => counts('go', 'run', file('read.go')),
  java: () => counts('java', file('Read.java')),
  node: () => Promise.all(EDITS.map(([, edit]) => nodeCounts(edit))),
};
const present: Readonly<Record<keyof typeof PROGRAMS, boolean>> = {
  openssl: isInstalled('openssl', 'version'),
  python: isInstalled('python3', '--version'),
  go: isInstalled('go', 'version'),
  java: isInstalled('java', '-version'),
  node: true,
};

test('a text counts as healthy only if every program reads all of it', async () => {
  const names = (Object.keys(PROGRAMS) as (keyof typeof PROGRAMS)[]).filter((name) => present[name]);
  if (names.length < 5) console.warn(`these programs are tested: ${names.join(', ')}`);
  const results = new Map<string, readonly Counts[]>();
  for (const name of names) results.set(name, await PROGRAMS[name]());
  for (const [index, [name, edit, result]] of EDITS.entries()) {
    const found = [...results].map(([program, all]) => [program, ...(all[index] ?? [])]);
    const summary = summarizeServingCert({
      'tls.crt': base64(edit(chain)),
      'tls.key': base64(edit(key)),
      'ca.crt': base64(edit(bundle)),
    });
    const isHealthy = summary?.kind === 'usable' && summary.damaged.length === 0;
    expect([name, isHealthy]).toEqual([name, result === 'read']);
    expect([name, readableCertificates(edit(bundle)) !== undefined]).toEqual([name, result === 'read']);
    const everything = [...results.keys()].map((program) => [program, 2, 2]);
    if (result === 'read') expect([name, found]).toEqual([name, everything]);
    if (result === 'lost') expect([name, found]).not.toEqual([name, everything]);
  }
}, 120_000);
