/** PEM texts and Secrets with arbitrary content. */
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';

import { AuthorityBroken, parseAuthority, toSecretData } from '../../../src/pki/authority/secret.ts';
import { importAuthority } from '../../../src/pki/authority/imported-ca.ts';
import {
  fingerprintsOf,
  parseCertificatePem,
  parsePrivateKeyPem,
  splitCertificates,
} from '../../../src/pki/x509/pem.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { answerOf, fuzzTarget, hold, isDeliberate } from '../target.ts';
import { base64, firstAuthority, rotated, serverOf } from '../../support/pki/fixtures.ts';
import { openKey } from '../../../src/pki/authority/generation.ts';
import { isJsonObject, type JsonObject } from '../../../src/json/json.ts';
import { bundleOfSource } from '../../../src/pki/injection/source.ts';
import { summarizeServingCert } from '../../../src/pki/serving-certs/facts.ts';
import { servingCertRequest, type ServingCertRequest } from '../../../src/pki/serving-certs/request.ts';
import { LEAF_PURPOSES } from '../../../src/pki/x509/certificate-fields.ts';

const NOW = new Date('2026-11-22T00:00:00Z');

const authority = await rotated(await firstAuthority(NOW), NOW);
const server = await serverOf(authority, NOW);
const key = server.keyPair.privateKey;
const bundle = authority.generations.map(({ certificate }) => certificate).join('');

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey;
const ed25519 = generateKeyPairSync('ed25519').privateKey;
const pkcs8 = { type: 'pkcs8', format: 'pem' } as const;
const guarded = { cipher: 'aes-256-cbc', passphrase: 'x' } as const;
/** A key in each supported format. The last two are encrypted, and parsing them must fail without a password. */
const KEYS = [
  key,
  createPrivateKey(key).export({ type: 'sec1', format: 'pem' }),
  ...[rsa, p384, ed25519].map((privateKey) => privateKey.export(pkcs8)),
  rsa.export({ type: 'pkcs1', format: 'pem' }),
  rsa.export({ ...pkcs8, ...guarded }),
  rsa.export({ type: 'pkcs1', format: 'pem', ...guarded }),
].map(String);

/** A message with this number of characters of a key reveals the key. */
const TELLING = 16;
const secrets = [
  ...KEYS,
  ...authority.generations.flatMap(({ key }) => (key === undefined ? [] : openKey(key))),
].flatMap((pem) => pem.split('\n').filter((line) => line.length > 2 * TELLING && !line.startsWith('-----')));

/** Any deliberate error is allowed if its message contains no part of a key. */
function isDiscreet(error: unknown): boolean {
  if (!(error instanceof Error) || !isDeliberate(error)) return false;
  const { message } = error;
  return !secrets.some((line) => message.includes(line.slice(0, TELLING)));
}

const stored = toSecretData(authority);

const pemTexts = mutatedText([server.chain, key, server.chain + key, `${key}${server.chain}`]);

export const pem = fuzzTarget('PEM', 25, pemTexts, (text) => {
  const certificates = answerOf(() => splitCertificates(text), isDiscreet);
  const prints = fingerprintsOf(text);
  hold(certificates !== undefined || prints === undefined, 'a text that all clients read is not accepted');
  const normal = answerOf(() => parseCertificatePem(text), isDiscreet);
  const found = (certificates ?? []).map(({ fingerprint256 }) => fingerprint256).toSorted();
  if (normal !== undefined) hold(fingerprintsOf(normal) === found.join(), 'the certificates have changed');
  const parsed = answerOf(() => parsePrivateKeyPem(text), isDiscreet);
  if (parsed !== undefined) hold(parsePrivateKeyPem(parsed) === parsed, 'the key has changed');
});

const keyTexts = fc.oneof(
  fc
    .tuple(mutatedText(KEYS), fc.constantFrom('\n', '\r\n'), fc.constantFrom('', server.chain))
    .map(([text, end, before]) => before + text.replaceAll('\n', end)),
  fc.constantFrom(...KEYS),
);

/** The parser returns the key in any format, or an error that reveals no part of the key. */
export const privateKeys = fuzzTarget('private key', 15, keyTexts, (text) => {
  const parsed = answerOf(() => parsePrivateKeyPem(text), isDiscreet);
  hold(parsed !== undefined || !KEYS.slice(0, -2).includes(text), 'a valid key was refused');
  hold(
    parsed === undefined || !KEYS.slice(-2).includes(text),
    'an encrypted key was read without its password',
  );
  if (parsed !== undefined) hold(parsePrivateKeyPem(parsed) === parsed, 'the key has changed');
});

type Texts = Readonly<Record<string, string>>;

/** The Secret with some other texts, each a part of those texts or gone. */
const editedSecret = (data: Texts, texts: readonly string[], maxLength: number): fc.Arbitrary<Texts> =>
  fc
    .array(fc.tuple(fc.constantFrom(...Object.keys(data)), mutatedText(texts), fc.boolean()), { maxLength })
    .map((edits) => {
      const edited = new Map(Object.entries(data));
      for (const [name, text, isGone] of edits) {
        if (isGone) edited.delete(name);
        else edited.set(name, text);
      }
      return Object.fromEntries(edited);
    });

const secret = editedSecret(stored, Object.values(stored), 3);

export const authoritySecret = fuzzTarget('Secret of an authority', 8, secret, async (data) => {
  const read = answerOf(
    () => parseAuthority(data),
    (error) => error instanceof AuthorityBroken && isDiscreet(error),
  );
  if (read !== undefined) parseAuthority(toSecretData(read));
  const result = await importAuthority(data, { dnsNames: ['db.prod.svc'], addresses: [] }, NOW);
  hold(
    result.kind === 'imported' || isDiscreet(new Error(result.problem)),
    'the problem contains a part of a key',
  );
});

const files = { 'tls.crt': server.chain, 'tls.key': key, 'ca.crt': bundle };

const serving = editedSecret(files, [...Object.values(files), ...KEYS], 2);

/** The Secret of a serving certificate and the source of a bundle: invalid content gives a result, never an error. */
export const servingSecret = fuzzTarget('Secret of a serving cert', 8, serving, (texts) => {
  const data = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, base64(text)]));
  const summary = summarizeServingCert(data);
  if (summary?.kind === 'unusable')
    hold(isDiscreet(new Error(summary.message)), 'the message reveals the key');
  if (isDeepStrictEqual(texts, files)) hold(summary?.kind === 'usable', 'the unchanged Secret is not usable');
  const ref = { kind: 'Secret', namespace: 'a', name: 'b' } as const;
  const metadata = { annotations: { 'gatehouse.dev/allow-direct-injection': 'true' } };
  const state = bundleOfSource(
    ref,
    { annotation: 'gatehouse.dev/allow-direct-injection', value: 'true' },
    { metadata, data },
    NOW,
  );
  if (state.kind === 'unusable') hold(isDiscreet(new Error(state.message)), 'the message reveals the key');
  if (state.kind === 'bundle') hold(!state.pem.includes('PRIVATE'), 'a key is injected');
});

const SERVICE: JsonObject = {
  name: 'db',
  namespace: 'prod',
  annotations: {
    'gatehouse.dev/serving-cert-secret-name': 'db-tls',
    'gatehouse.dev/serving-cert-dns-names': 'db.example.com,*.db.example.com,shopping.example.com',
    'gatehouse.dev/serving-cert-key-algorithm': 'RSA-2048',
    'gatehouse.dev/serving-cert-duration': '24h',
    'gatehouse.dev/serving-cert-outputs': 'combined-pem,pkcs12',
    'gatehouse.dev/serving-cert-pod-names': 'db:3',
    'gatehouse.dev/serving-cert-wildcard': 'true',
    'gatehouse.dev/serving-cert-renew-after': '50%',
    'gatehouse.dev/serving-cert-cluster-ips': 'false',
    'gatehouse.dev/serving-cert-keystore-password': 'secret/key',
    'gatehouse.dev/client-cert-secret-name': 'db-client-tls',
    'gatehouse.dev/client-cert-dns-names': 'db.example.com',
  },
};
const RULES = {
  clusterDomain: 'cluster.local',
  dnsSuffixes: ['example.com'],
  shortNames: true,
  clusterIPs: true,
  namespaceSuffixes: new Map([['shop.example.com', 'shop']]),
  nameConstraints: false,
  maxLifetimeMs: 365 * 86_400_000,
  renewAfter: 66,
  openshift: true,
};

const serviceMetadata = mutatedObject([SERVICE]);

/**
 * For any annotations of a Service, the certificate contains only DNS names of the Service and those that the operator
 * allows.
 */
export const serviceRequests = fuzzTarget('annotations of a Service', 30, serviceMetadata, (metadata) => {
  const { annotations } = metadata;
  const texts = Object.entries(isJsonObject(annotations) ? annotations : {}).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string', // the API server allows only strings
  );
  const service = {
    metadata: { name: 'db', namespace: 'prod', annotations: Object.fromEntries(texts) },
    spec: { clusterIP: 'None' },
  };
  for (const purpose of LEAF_PURPOSES) holdRequest(servingCertRequest(service, RULES, purpose));
});

function holdRequest(request: ServingCertRequest): void {
  if (request.kind === 'invalid')
    hold(request.message.length < 2_000, `${request.message.length} characters`);
  if (request.kind !== 'request') return;
  for (const name of request.dnsNames) {
    const isOwn = name === 'db' || /^([a-z0-9*-]+\.)*db\.prod(\.svc(\.cluster\.local)?)?$/.test(name);
    hold(
      !/(^|\.)shop\.example\.com$/.test(name) && name !== '*.example.com',
      `${name} is of another namespace`,
    );
    hold(isOwn || /^(\*\.)?([a-z0-9-]+\.)*example\.com$/.test(name), `it has the name ${name}`);
  }
  hold(
    request.lifetimeMs > 0 && Number.isFinite(request.lifetimeMs),
    `its lifetime is ${request.lifetimeMs} ms`,
  );
}
