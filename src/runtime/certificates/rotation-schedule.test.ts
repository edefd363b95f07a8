/**
 * Random rotation schedules keep the trust invariants T1 to T12, even for servers and clients that never reload.
 * `GATEHOUSE_SEED=<n>` repeats one schedule. `GATEHOUSE_SCHEDULES=<n>` sets their number; CI runs more than the default.
 */
import type { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Authority } from '../../pki/authority/authority.ts';
import { generationId, rootOf } from '../../pki/authority/generation.ts';
import { splitCertificates } from '../../pki/x509/pem.ts';
import { isTrustedBy } from '../../pki/x509/chains.ts';
import { SECOND } from '../../pki/durations.ts';
import { permitsOnAllPaths } from '../../../test/support/trust-paths.ts';
import { hasOpenssl, opensslTrusts } from '../../../test/support/trust-verdicts.ts';
import {
  CONFIGMAP_KEY,
  createModel,
  HOST,
  LIFE_MS,
  TIMES,
  type Leaf,
  type Model,
  type ModelCa,
} from '../../../test/support/runtime/rotation-model.ts';

const STEPS = 220;
/** How many pairs of each schedule OpenSSL judges: a process for each. */
const SAMPLES = 4;
const chosen = process.env.GATEHOUSE_SEED;
const schedules = Number(process.env.GATEHOUSE_SCHEDULES ?? 2);
const seeds = chosen === undefined ? Array.from({ length: schedules }, (_, n) => n + 1) : [Number(chosen)];

/** Operations that advance a rotation have more weight, so that a schedule contains several rotations. */
const WEIGHTS: Readonly<Partial<Record<keyof Model['operations'], number>>> = {
  reconcile: 6,
  bothReconcile: 2,
  publishBundle: 3,
  inject: 6,
  revert: 1,
  reissue: 5,
  reloadServer: 3,
  reloadClient: 3,
  rotate: 1,
  crash: 2,
  stepClock: 1,
  pass: 5,
};
const drawn = (weights: typeof WEIGHTS) =>
  Object.entries(weights).flatMap(([name, weight]) =>
    Array.from({ length: weight }, () => name as keyof Model['operations']),
  );
/** The owner of an imported CA rotates it. The operator may change the suffix, because the CA permits all names. */
const DRAWN: Readonly<Record<ModelCa, readonly (keyof Model['operations'])[]>> = {
  own: drawn(WEIGHTS),
  constrained: drawn(WEIGHTS),
  imported: drawn({ ...WEIGHTS, rotate: 0, replaceCa: 1, renewCa: 2, mistakeCa: 1, changeSuffix: 1 }),
};

interface Books {
  readonly verdicts: Map<string, boolean>;
  readonly generations: Set<string>;
  readonly activated: Set<string>;
  /** Bundles that passed {@link checkBundles}. */
  readonly sound: Set<string>;
  /** Every leaf that was ever served, by its chain. */
  readonly chains: Map<string, Leaf>;
  /** Every bundle that a client could ever load, and when it could. */
  readonly bundles: Map<string, { readonly firstAt: number; readonly lastAt: number }>;
  retired: number;
}

test.each(
  seeds.flatMap((seed) => [
    { seed, skewMs: 0, ca: 'own' as const },
    { seed, skewMs: 40_000, ca: 'own' as const },
    { seed, skewMs: 0, ca: seed % 2 === 0 ? ('constrained' as const) : ('imported' as const) },
  ]),
)(
  'schedule $seed ($ca CA), with leader clocks $skewMs ms apart, keeps T1 to T12',
  { timeout: 60_000 },
  async ({ seed, skewMs, ca }) => {
    const model = await createModel(seed, -skewMs, ca);
    const operations = DRAWN[ca];
    const books: Books = {
      verdicts: new Map(),
      generations: new Set(),
      activated: new Set(),
      sound: new Set(),
      chains: new Map(),
      bundles: new Map(),
      retired: 0,
    };
    const trace: string[] = [];
    try {
      for (let step = 0; step < STEPS; step++) {
        const name = operations[model.pick(operations.length)] ?? 'reconcile';
        trace.push(name);
        await model.operations[name]();
        checkStep(model, books, skewMs === 0);
      }
      trace.push('the last rotation');
      const changes = model.lastRotation();
      while ((await changes.next()).done !== true) checkStep(model, books, skewMs === 0);
      checkProcesses(model, books);
      // The schedule must contain at least one rotation.
      expect(books.activated.size).toBeGreaterThan(1);
    } catch (error) {
      const where = `schedule ${seed} (${ca} CA, skew ${skewMs}) fails at step ${trace.length}`;
      throw new Error(`${where}: ${trace.slice(-12).join(', ')}`, { cause: error });
    }
  },
);

const parsed = new Map<string, readonly X509Certificate[]>();
/** Parses each text once: every step looks at all of them. */
function certificatesIn(pem: string): readonly X509Certificate[] {
  const certificates = parsed.get(pem) ?? splitCertificates(pem);
  parsed.set(pem, certificates);
  return certificates;
}

function checkStep(model: Model, books: Books, oneClock: boolean): void {
  const authority = model.stored();
  if (authority === undefined) return;
  checkHistory(model, books, authority);
  checkActivation(model, books, authority, oneClock);
  checkBundles(model, books);
  checkServers(model, books, authority);
  checkTrust(model, books, authority);
  checkDistrust(model, books, authority);
  const { now } = model.world;
  for (const bundle of publishedIn(model))
    books.bundles.set(bundle, { firstAt: books.bundles.get(bundle)?.firstAt ?? now, lastAt: now });
}

const bundlesIn = ({ world, configMaps }: Model): readonly string[] => [
  ...world.targets,
  configMaps.read(CONFIGMAP_KEY)?.data?.['ca.crt'] ?? '',
];
const publishedIn = (model: Model) => bundlesIn(model).filter((one) => one !== '');

/** D3, D4: no generation is lost, and no reason creates two generations. */
function checkHistory({ world }: Model, { generations }: Books, authority: Authority): void {
  for (const { id } of authority.generations) generations.add(id);
  const known = new Set([...authority.generations.map(({ id }) => id), ...(authority.gone ?? [])]);
  expect([...generations].filter((id) => !known.has(id))).toEqual([]);
  expect(generations.size).toBeLessThanOrEqual(1 + world.rotations);
  // The bundle limits the CAs of an owner.
  if (!world.hasOwner) expect(authority.generations.length).toBeLessThanOrEqual(6);
}

/**
 * T7: every target trusts the active generation, and has done so for at least the propagation wait. T11: it can sign for the
 * Services.
 */
function checkActivation(model: Model, books: Books, authority: Authority, oneClock: boolean): void {
  const { world } = model;
  for (const generation of authority.generations) {
    const { id, state, activatedAt, publishedAt, key } = generation;
    if (state === 'retiring') expect(key).toBeUndefined();
    if (state !== 'active' || books.activated.has(id)) continue;
    const isFirst = books.activated.size === 0;
    books.activated.add(id);
    if (world.mistakes.has(id)) throw new Error(`T11: clients reject what the active generation ${id} signs`);
    if (isFirst) continue;
    const { fingerprint256 } = rootOf(generation);
    for (const bundle of bundlesIn(model))
      expect(splitCertificates(bundle).map((one) => one.fingerprint256)).toContain(fingerprint256);
    if (oneClock)
      expect(Number(activatedAt) - Number(publishedAt)).toBeGreaterThanOrEqual(TIMES.propagationWaitMs);
  }
}

/** T5: every bundle holds only self-signed roots, each once. */
function checkBundles(model: Model, { sound }: Books): void {
  for (const bundle of publishedIn(model)) {
    if (sound.has(bundle)) continue;
    sound.add(bundle);
    const roots = certificatesIn(bundle);
    expect(roots.length).toBeGreaterThan(0);
    expect(new Set(roots.map(({ fingerprint256 }) => fingerprint256)).size).toBe(roots.length);
    for (const root of roots) expect(root.checkIssued(root) && root.verify(root.publicKey)).toBe(true);
  }
}

/** T4, T6, T8: each served chain is in order, ends before its root, and its generation is retained. */
function checkServers({ world }: Model, { chains }: Books, authority: Authority): void {
  const retained = new Map(authority.generations.map((generation) => [generation.id, generation]));
  for (const leaf of [...world.leaves, ...world.servers]) {
    if (leaf === undefined || leaf.endsAt <= world.now) continue;
    const isNew = !chains.has(leaf.chain);
    chains.set(leaf.chain, leaf);
    const signer = retained.get(leaf.generation);
    if (signer === undefined)
      throw new Error(`T8: generation ${leaf.generation} is gone, and a server presents it`);
    const certificates = certificatesIn(leaf.chain);
    expect(Number(certificates[0]?.validToDate)).toBeLessThanOrEqual(Number(rootOf(signer).validToDate));
    if (!isNew) continue;
    for (const [index, certificate] of certificates.entries()) {
      expect(certificate.checkIssued(certificate)).toBe(false);
      const issuer = certificates[index + 1];
      if (issuer !== undefined) expect(certificate.verify(issuer.publicKey)).toBe(true);
    }
  }
}

/** T1, T2: every client accepts every server, however stale, while the newest root of the client is retained. */
function checkTrust({ world }: Model, books: Books, authority: Authority): void {
  const retained = new Set(authority.generations.map(({ id }) => id));
  for (const bundle of new Set([...world.clients, ...world.targets])) {
    const [newest] = bundle === '' ? [] : certificatesIn(bundle);
    if (newest === undefined || !retained.has(generationId(newest.publicKey))) continue;
    for (const server of new Set(world.servers)) {
      if (server === undefined || server.endsAt <= world.now) continue;
      if (newest.validToDate.getTime() <= server.issuedAt) continue; // its owner renewed it late
      if (accepts(books, server, bundle, server.issuedAt)) continue;
      throw new Error(`T1: a client that knows ${newest.subject} refuses a server of ${server.generation}`);
    }
  }
}

/** T3: the current bundle does not trust certs of removed generations. */
function checkDistrust({ world }: Model, books: Books, authority: Authority): void {
  const gone = authority.gone?.length ?? 0;
  if (gone === books.retired) return;
  books.retired = gone;
  const bundle = authority.generations.map(({ certificate }) => certificate).join('');
  for (const leaf of books.chains.values())
    if (authority.gone?.includes(leaf.generation) === true && leaf.bridges === '')
      expect(accepts(books, leaf, bundle, world.now)).toBe(false);
}

/**
 * T9, T10: a server that loads its cert once, and a client that loads its bundle once, work until the cert expires if the
 * bundle was published after the cert was issued, or was replaced less than one life of a cert before.
 */
function checkProcesses({ world, keyPair }: Model, books: Books): void {
  const judged: { readonly leaf: Leaf; readonly bundle: string; readonly at: number }[] = [];
  for (const leaf of world.issued)
    for (const [bundle, { firstAt, lastAt }] of books.bundles) {
      if (leaf.issuedAt > lastAt + LIFE_MS || firstAt >= leaf.endsAt) continue;
      // A client with a root that its owner let end must restart before.
      const rootEnds = world.hasOwner ? certificatesIn(bundle).map(endOf) : [];
      const at = Math.min(leaf.endsAt, ...rootEnds) - SECOND;
      if (at < Math.max(leaf.issuedAt, firstAt)) continue;
      judged.push({ leaf, bundle, at });
      if (accepts(books, leaf, bundle, at)) continue;
      const [issued, ends, first, last] = [leaf.issuedAt, leaf.endsAt, firstAt, lastAt].map((time) =>
        new Date(time).toISOString(),
      );
      throw new Error(
        `${leaf.issuedAt <= lastAt ? 'T9' : 'T10'}: a cert of ${leaf.generation} (${issued} to ${ends}) ` +
          `is refused by a bundle that was published from ${first} to ${last}`,
      );
    }
  if (!hasOpenssl) return;
  // A sample proves that OpenSSL gives the same verdicts.
  const every = Math.ceil(judged.length / SAMPLES);
  for (const { leaf, bundle, at } of judged.filter((_, index) => index % every === 0)) {
    const server = { chain: leaf.chain, privateKey: keyPair.privateKey };
    expect(opensslTrusts(server, bundle, HOST, new Date(at))).toBe(true);
  }
}

const endOf = ({ validToDate }: X509Certificate): number => validToDate.getTime();

function accepts({ verdicts }: Books, { chain }: Leaf, bundle: string, at: number): boolean {
  const key = `${at}|${chain}|${bundle}`;
  const verdict =
    verdicts.get(key) ??
    (isTrustedBy(chain, bundle, new Date(at)) && permitsOnAllPaths(chain, bundle, new Date(at)));
  verdicts.set(key, verdict);
  return verdict;
}
