import { beforeAll, describe, expect, test } from 'vitest';

import {
  base64,
  firstAuthority,
  rotationState,
  type Server,
  SERVER_NAME,
  serverOf,
  firstImported,
  importedFrom,
  preparedImport,
} from '../../../test/support/pki/fixtures.ts';
import { testTrust } from '../../../test/support/pki/trust-matrix.ts';
import { dataOf, type MadeCa, makeCa } from '../../../test/support/pki/openssl-ca.ts';
import { hasOpenssl, opensslTrusts } from '../../../test/support/trust-verdicts.ts';
import { after, DAY, HOUR } from '../durations.ts';
import { textOf } from '../secret-data.ts';
import { nameConstraints, signRoot } from '../x509/certificate.ts';
import { generateKeyPair, type KeyPair, randomSerial } from '../x509/keys.ts';
import { splitCertificates } from '../x509/pem.ts';
import {
  activate,
  activeGeneration,
  type Authority,
  bundleRoots,
  caBundle,
  MAX_BUNDLE_BYTES,
  prepare,
  recordTrust,
  remove,
  renewRoot,
  signingOf,
} from './authority.ts';
import { generationId, type ImportedAuthority, rootOf, sealKey, signWith } from './generation.ts';
import { planRotation, refusal, type RotationState } from './rotation-plan.ts';
import { parseAuthority, toSecretData } from './secret.ts';
import { activationProblem } from './trial.ts';

const SCOPE = { dnsNames: [SERVER_NAME], addresses: [] };
/** Certificates have whole seconds. TLS stacks read the clock. */
const now = new Date(Math.floor(Date.now() / 1_000) * 1_000);
let keyPair: KeyPair;
let ours: ImportedAuthority;
let authority: Authority;

/** The root of the organisation for `keyPair`, from and to so many days from now. */
async function rootFor(
  from: number,
  to: number,
  name = 'Acme Root',
  domains?: readonly string[],
  keys = keyPair,
): Promise<ImportedAuthority> {
  const term = { serial: randomSerial(), notBefore: after(now, from * DAY), notAfter: after(now, to * DAY) };
  const { publicKey, privateKey } = keys;
  const issuer = { publicKey, sign: signWith(privateKey) };
  const { certificate } = await signRoot(name, issuer, term, domains && nameConstraints(domains));
  const id = generationId(publicKey);
  return { id, certificate, key: sealKey(id, privateKey) };
}

const stateOf = (imported: ImportedAuthority, change: Partial<RotationState> = {}) =>
  rotationState({ authority, now, times: { propagationWaitMs: HOUR }, imported, ...change });

/** As many roots as the bundle can hold, of CAs that were imported before. Their names are short, and so are they. */
async function full(): Promise<Authority> {
  const generations = [...authority.generations];
  const roomFor = (root: string) => caBundle({ generations }, now).length + root.length <= MAX_BUNDLE_BYTES;
  for (let number = 0; ; number += 1) {
    const { certificate } = await rootFor(-100, 265, String(number));
    if (!roomFor(certificate)) return { generations };
    const id = number.toString(16).padStart(8, '0');
    generations.push({ ...activeGeneration(authority), id, state: 'retiring', key: undefined, certificate });
  }
}

beforeAll(async () => {
  keyPair = await generateKeyPair('ECDSA-P256');
  ours = await rootFor(-100, 265);
  const first = await firstImported(ours, now);
  authority = recordTrust(first, [ours.id], after(now, 91 * DAY));
});

describe('a renewed certificate of an imported CA', () => {
  test('is adopted, and the same certificate changes nothing', async () => {
    expect(planRotation(stateOf(await rootFor(0, 365)))).toEqual({ kind: 'renew-root' });
    expect(planRotation(stateOf(ours)).kind).toBe('none');
    expect(refusal(stateOf(ours))).toBeUndefined();
  });

  test('waits until it begins: clients would reject it before', async () => {
    const begins = after(now, DAY / 48);
    const early = await rootFor(1 / 48, 365);
    expect(planRotation(stateOf(early))).toMatchObject({ kind: 'none', recheckAt: begins });
    expect(refusal(stateOf(early))).toContain(
      `begins at ${begins.toISOString()}: the current certificate remains`,
    );
    expect(planRotation(stateOf(early, { now: begins }))).toEqual({ kind: 'renew-root' });
  });

  test('T9: is refused if it ends before the certs that the CA has signed', async () => {
    const short = await rootFor(0, 90);
    expect(planRotation(stateOf(short)).kind).toBe('none');
    expect(refusal(stateOf(short))).toContain('before the certs that the CA has signed');
    expect(planRotation(stateOf(await rootFor(0, 92)))).toEqual({ kind: 'renew-root' });
  });

  test('is refused if its name is another one: no cert leads to it', async () => {
    const renamed = await rootFor(0, 365, 'Acme Root 2');
    expect(planRotation(stateOf(renamed)).kind).toBe('none');
    expect(refusal(stateOf(renamed))).toContain('put a CA with a new key');
  });

  test('T9: is refused if its name constraints are others: clients apply those of any of its roots', async () => {
    const constrained = await rootFor(-1, 265, 'Acme Root', ['svc']);
    const first = await firstImported(constrained, now);
    const cases = [
      { authority, renewed: constrained },
      { authority: first, renewed: ours },
      { authority: first, renewed: await rootFor(0, 365, 'Acme Root', ['svc', 'apps.example.com']) },
    ];
    for (const { authority, renewed } of cases) {
      const state = stateOf(renewed, { authority, longestLifeMs: undefined });
      expect(planRotation(state).kind).toBe('none');
      expect(refusal(state)).toMatch(/other name constraints .* put a CA with a new key/);
    }
    const same = await rootFor(0, 365, 'Acme Root', ['svc']);
    const state = stateOf(same, { authority: first, longestLifeMs: undefined });
    expect(planRotation(state)).toEqual({ kind: 'renew-root' });
  });
});

describe('a pending CA', () => {
  test('T11: that its owner repairs with the same key is imported again, with another bridge', async () => {
    const next = await generateKeyPair('ECDSA-P256');
    const wrong = await rootFor(-1, 60, 'Next', ['example.com'], next);
    const behind = await preparedImport(authority, wrong, now);
    const repaired = await rootFor(-1, 365, 'Next', undefined, next);
    const dropped = { kind: 'retire', ids: [wrong.id], reason: 'Withdrawn' };
    expect(planRotation(stateOf(repaired, { authority: behind }))).toEqual(dropped);
    const without = remove(behind, [wrong.id]);
    const prepared = { kind: 'prepare', reason: 'ImportedCaChanged' };
    expect(planRotation(stateOf(repaired, { authority: without }))).toEqual(prepared);
  });
});

describe('the size of the bundle', () => {
  test('limits how many CAs are trusted, and the message says when there is room', async () => {
    const next = activeGeneration(await firstAuthority(now));
    const imported = {
      id: next.id,
      certificate: next.certificate,
      key: sealKey(next.id, keyPair.privateKey),
    };
    expect(planRotation(stateOf(imported))).toMatchObject({ kind: 'prepare' });
    const crowded = await full();
    const rest = { generations: crowded.generations.slice(0, -2) };
    expect(planRotation(stateOf(imported, { authority: rest }))).toMatchObject({ kind: 'prepare' });
    const state = stateOf(imported, { authority: crowded });
    expect(planRotation(state).kind).toBe('none');
    expect(refusal(state)).toMatch(/the bundle is too full for the CA .*: the next one is made after \d{4}-/);
    // Such a bundle could not be published, so nothing would be gained at last call either.
    const late = { authority: crowded, now: after(now, 250 * DAY), longestLifeMs: undefined };
    expect(planRotation(stateOf(imported, late)).kind).not.toBe('prepare');
  });
});

describe('the former root of an imported CA', () => {
  let renewed: Authority;
  let twice: Authority;
  beforeAll(async () => {
    renewed = renewRoot(authority, await rootFor(0, 700), now);
    twice = renewRoot(renewed, await rootFor(0, 1000), now);
  });
  const endsOf = (one: Authority, at: Date) => bundleRoots(one, at).map(({ validToDate }) => validToDate);
  const days = (...ends: readonly number[]) => ends.map((end) => after(now, end * DAY));

  test('remains in the bundle until it ends', async () => {
    expect(endsOf(renewed, now)).toEqual(days(700, 265));
    expect(endsOf(twice, now)).toEqual(days(1000, 700, 265));
    expect(signingOf(twice, now).validUntil).toEqual(after(now, 265 * DAY));
    expect(endsOf(twice, after(now, 265 * DAY))).toEqual(days(1000, 700));
    expect(endsOf(renewRoot(twice, await rootFor(0, 1200), after(now, 700 * DAY)), now)).toEqual(
      days(1200, 1000),
    );
  });

  test('is there once if its owner puts it back', () => {
    expect(endsOf(renewRoot(renewed, ours, now), now)).toEqual(days(265, 700));
    expect(renewRoot(authority, ours, now)).toEqual(authority);
  });

  test('goes with its generation: when the generation retires, and when it is distrusted', async () => {
    const next = { ...activeGeneration(await firstAuthority(now)), state: 'pending' } as const;
    const behind = activate(prepare(renewed, next, undefined), next.id, now);
    expect(endsOf(behind, now)).toEqual([rootOf(next).validToDate, ...days(700, 265)]);
    expect(endsOf(remove(behind, [ours.id]), now)).toEqual([rootOf(next).validToDate]);
  });

  test('is stored where an older version keeps it and ignores it', () => {
    const data = toSecretData(twice);
    expect(parseAuthority(data)).toEqual(twice);
    const { [`${ours.id}.former.crt`]: former, ...without } = data;
    expect(splitCertificates(Buffer.from(former ?? '', 'base64').toString())).toHaveLength(2);
    expect(() => parseAuthority(without)).toThrow(`${ours.id}.former.crt: it is missing`);
    const list = JSON.parse(textOf(data, 'generations.json') ?? '') as readonly object[];
    const older = list.map((entry) => ({ ...entry, files: undefined }));
    const seenByOlder = { ...without, 'generations.json': base64(JSON.stringify(older)) };
    const withoutFormer = { ...activeGeneration(twice), formerRoots: undefined };
    expect(parseAuthority(seenByOlder).generations).toEqual([withoutFormer]);
  });

  test('of a stranger is not trusted', async () => {
    const stranger = (await rootFor(0, 365, 'Stranger')).certificate;
    const data = { ...toSecretData(authority), [`${ours.id}.former.crt`]: base64(stranger) };
    expect(parseAuthority(data)).toEqual(authority);
    const garbage = { ...data, [`${ours.id}.former.crt`]: base64('-----BEGIN CERTIFICATE-----') };
    expect(() => parseAuthority(garbage)).toThrow(
      `${ours.id}.former.crt: line 1: the certificate is cut off`,
    );
  });

  describe('and the renewed one are interchangeable: servers and clients of any time trust each other', () => {
    let servers: readonly Server[];
    let bundles: readonly string[];
    beforeAll(async () => {
      servers = await Promise.all([authority, renewed, twice].map((one) => serverOf(one, now)));
      const newestOnly = activeGeneration(twice).certificate;
      bundles = [...[authority, renewed, twice].map((one) => caBundle(one, now)), newestOnly];
    });
    const cells = [0, 1, 2].flatMap((server) => [0, 1, 2, 3].map((client) => ({ server, client })));
    testTrust(cells, ({ server, client }) => ({
      server: servers[server] ?? { chain: '', privateKey: '' },
      bundle: bundles[client] ?? '',
    }));

    test.skipIf(!hasOpenssl)(
      'a client with both accepts servers after the former root has ended',
      async () => {
        const late = after(now, 266 * DAY);
        const recorded = recordTrust(renewed, [ours.id], after(late, 2 * DAY));
        const server = await serverOf(recorded, late);
        const at = after(late, HOUR);
        expect(opensslTrusts(server, bundles[1] ?? '', SERVER_NAME, at)).toBe(true);
        expect(opensslTrusts(server, bundles[0] ?? '', SERVER_NAME, at)).toBe(false);
      },
    );
  });

  test('is one of at most eight, and the message says when another one is possible', async () => {
    const ends = Array.from({ length: 8 }, (_none, index) => 300 + index);
    const roots = await Promise.all(ends.map((end) => rootFor(0, end)));
    const nine = roots.reduce((one, root) => renewRoot(one, root, now), authority);
    expect(bundleRoots(nine, now)).toHaveLength(9);
    const state = stateOf(await rootFor(0, 365), { authority: nine });
    expect(planRotation(state).kind).toBe('none');
    expect(refusal(state)).toContain(
      `wait until ${after(now, 265 * DAY).toISOString()}, when the first one ends`,
    );
    expect(planRotation({ ...state, imported: ours })).toEqual({ kind: 'renew-root' });
    const eight = roots.slice(1).reduce((one, root) => renewRoot(one, root, now), authority);
    expect(planRotation({ ...state, authority: eight })).toEqual({ kind: 'renew-root' });
  });

  test('may end first in a bundle without room, and the message says when', async () => {
    const crowded = await full();
    const [active = activeGeneration(authority), , ...rest] = crowded.generations;
    const ending = (await rootFor(-100, 50)).certificate;
    const state = stateOf(await rootFor(0, 365, 'Another Root'), {
      authority: { generations: [{ ...active, formerRoots: ending }, ...rest] },
    });
    const next = { ...state.imported, id: 'ffffffff' } as ImportedAuthority;
    expect(planRotation({ ...state, imported: next }).kind).toBe('none');
    expect(refusal({ ...state, imported: next })).toContain(
      `it has more room after ${after(now, 50 * DAY).toISOString()}, when the first root in it ends`,
    );
  });

  test('needs room in the bundle', async () => {
    const state = stateOf(await rootFor(0, 365), { authority: await full() });
    expect(planRotation(state).kind).toBe('none');
    expect(refusal(state)).toContain('the bundle is too full for the renewed root');
  });

  test.skipIf(!hasOpenssl)(
    'must verify a renewed intermediate CA too, because clients hold only that root',
    async () => {
      const root = makeCa({ usage: 'critical,keyCertSign' });
      const issuing = makeCa({ issuer: root, subject: '/CN=Issuing' });
      const at = after(now, HOUR);
      const imported = (ca: MadeCa, top: MadeCa) => importedFrom(dataOf(ca, top), at);
      const start = await firstImported(await imported(issuing, root), at);
      const newRoot = makeCa({ key: root.key, days: 700 });
      const renewedBy = async (authorityKeyId: string, authority = start) => {
        const options = {
          issuer: newRoot,
          subject: '/CN=Issuing',
          key: issuing.key,
          days: 500,
          authorityKeyId,
        };
        return stateOf(await imported(makeCa(options), newRoot), { authority, now: at });
      };
      expect(planRotation(await renewedBy('keyid'))).toEqual({ kind: 'renew-root' });
      const bound = await renewedBy('keyid,issuer:always');
      expect(planRotation(bound).kind).toBe('none');
      expect(refusal(bound)).toContain('leads only to its new root, by the serial number');

      // The current root is the one that the serial number names. Some clients still hold only the former one.
      const { imported: second = ours } = await renewedBy('keyid');
      const boundAgain = await renewedBy('keyid,issuer:always', renewRoot(start, second, at));
      expect(planRotation(boundAgain).kind).toBe('none');
      expect(refusal(boundAgain)).toContain('so clients that hold only an earlier root would reject');

      // A new key below the renewed root does not need a bridge, because both roots are one CA.
      const follow = async (authorityKeyId: string) => {
        const ca = { issuer: newRoot, subject: '/CN=Issuing 2', days: 500, authorityKeyId };
        return await preparedImport(start, await imported(makeCa(ca), newRoot), at);
      };
      expect(await activationProblem(await follow('keyid'), SCOPE, at)).toBeUndefined();
      const rejected = await activationProblem(await follow('keyid,issuer:always'), SCOPE, at);
      expect(rejected).toContain('reject a certificate');
    },
  );
});
