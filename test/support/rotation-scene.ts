/** A cluster with one object of every kind that a rotation of the CA writes, and names for those writes. */
import { secrets, services, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import { parseAuthority } from '../../src/pki/authority/secret.ts';
import { after } from '../../src/pki/durations.ts';
import type { Authority } from '../../src/pki/authority/authority.ts';
import type { Write } from './api-proxy-exchange.ts';
import {
  ADMISSION_POLICIES,
  AUTHORITY,
  createNamespace,
  localService,
  startClusterFor,
  SYSTEM_NAMESPACE,
  type Cluster,
} from './cluster.ts';
import { ASKS, entry, KINDS, type Carrier } from './injection-objects.ts';
import { endTrust, LONG_AGO_MS } from './end-trust.ts';
import { admissionPolicy, isTrue, type Conditioned, type SecretObject } from './objects.ts';
import { eventually } from './processes.ts';
import { issuerId, leafOf, rootIds, type TrustEvent, type TrustHistory } from './trust-history.ts';

/** Without waiting times. The tests delete the lease of a killed leader, so its duration is the default. */
export const QUICK = {
  'ca-propagation-wait': '1ms',
  'retry-period': '200ms',
} as const;

const WRITES_BEFORE_EXPIRY = [
  ['authority prepare'],
  ['cabundle publish', 'webhook publish', 'theirs publish', 'serving publish', 'db publish'],
  ['authority publish', 'theirs hand-back'],
  ['authority activate'],
  ['serving reissue', 'db reissue'],
] as const;

const WRITES_AFTER_EXPIRY = [
  ['authority retire'],
  ['cabundle trim', 'webhook trim', 'theirs trim', 'serving trim', 'db trim'],
  ['theirs last hand-back'],
] as const;

/**
 * Every write of a rotation; writes on one line come in any order. A server-side apply also takes ownership of
 * fields that a later write gives up again; nothing waits for that write.
 */
export const ROTATION_WRITES = [...WRITES_BEFORE_EXPIRY, ...WRITES_AFTER_EXPIRY] as const;

export type RotationWrite = (typeof ROTATION_WRITES)[number][number];

export const comesAfterExpiry = (name: RotationWrite): boolean =>
  WRITES_AFTER_EXPIRY.flat().some((one) => one === name);

const NAMES: Readonly<Record<string, string>> = {
  [`secrets ${SYSTEM_NAMESPACE}/gatehouse-authority`]: 'authority',
  [`configmaps ${SYSTEM_NAMESPACE}/gatehouse-cabundle`]: 'cabundle',
  'validatingwebhookconfigurations gatehouse': 'webhook',
  'validatingwebhookconfigurations theirs': 'theirs',
  [`secrets ${SYSTEM_NAMESPACE}/gatehouse-serving`]: 'serving',
  'secrets shop/db-tls': 'db',
};

/** The name of a write in a rotation away from `old`; undefined if the rotation does not need it. */
export function nameOfWrite(
  { target, body }: Write,
  old: string,
  events: readonly TrustEvent[],
): string | undefined {
  const name = NAMES[target];
  if (name === undefined) return undefined;
  if (Array.isArray(body)) return isKept(old, events) ? `${name} hand-back` : `${name} last hand-back`;
  const object = body as Carrier; // Gatehouse sends such an object to each of these targets
  if (name === 'authority') {
    const authority = parseAuthority(object.data ?? {});
    return isConsented(authority) ? undefined : `authority ${authorityStep(authority)}`;
  }
  const { 'ca.crt': bundle = '', 'tls.crt': chain } = object.data ?? {};
  if (chain !== undefined) {
    // The leader also copies path tokens and keys for webhook processes into its serving Secret.
    const isCopy = name === 'serving' && isStanding(target, decode(chain), decode(bundle), events);
    return isCopy ? undefined : `${name} ${leafStep(decode(chain), decode(bundle), old)}`;
  }
  const roots = name === 'cabundle' ? bundle : decode(object.webhooks?.[0]?.clientConfig.caBundle ?? '');
  // The path token follows the serving cert. A slow rotation is still running when Gatehouse writes the next token.
  if (name === 'webhook' && isPublished(target, roots, events)) return undefined;
  return `${name} ${bundleStep(roots)}`;
}

const isKept = (id: string, events: readonly TrustEvent[]): boolean =>
  standingOf(events).authority.generations.some((generation) => generation.id === id);

function isStanding(target: string, chain: string, bundle: string, events: readonly TrustEvent[]): boolean {
  const { chains, bundles } = standingOf(events);
  return chains.get(target) === chain && bundles.get(target) === bundle;
}

const isPublished = (target: string, bundle: string, events: readonly TrustEvent[]): boolean =>
  [...standingOf(events).bundles].some(
    ([place, standing]) => place.startsWith(`${target} `) && standing === bundle,
  );

/** What `endTrust` stored with the consent of a user. The leader writes it without the consent. */
const isConsented = ({ generations: [newest, before] }: Authority): boolean =>
  before !== undefined &&
  newest?.activatedAt !== undefined &&
  newest.activatedAt < after(new Date(), -LONG_AGO_MS / 2);

function authorityStep({ generations: [newest, before] }: Authority): string {
  if (before === undefined) return 'retire';
  if (newest?.state === 'pending') return newest.publishedAt === undefined ? 'prepare' : 'publish';
  return 'activate';
}

const bundleStep = (bundle: string): string => (rootIds(bundle).length > 1 ? 'publish' : 'trim');

function leafStep(chain: string, bundle: string, old: string): string {
  const isOld = issuerId(leafOf(chain)) === old;
  return bundleStep(bundle) === 'publish' && !isOld ? 'reissue' : bundleStep(bundle);
}

const decode = (base64: string): string => Buffer.from(base64, 'base64').toString('utf8');

/** Starts the cluster before any replica runs. `port`: target of the Service of Gatehouse. */
export async function startRotationScene(port: number): Promise<Cluster> {
  const cluster = await startClusterFor(port);
  await createNamespace(cluster, 'shop');
  const annotations = { 'gatehouse.dev/serving-cert-secret-name': 'db-tls' };
  await cluster.admin.create(services, localService('shop', 'db', 443, annotations));
  await cluster.admin.create(validatingWebhookConfigurations, {
    ...KINDS.validatingwebhook.make('theirs', ASKS),
    webhooks: [entry('one.example.com')],
  });
  const policy = admissionPolicy('selectors', {
    match: { apiGroups: ['apps'], apiVersions: ['v1'], resources: ['replicasets'] },
    validate: { immutable: ['spec.selector'] },
  });
  await cluster.apply(policy);
  return cluster;
}

export async function untilInstalled({ see }: Cluster): Promise<void> {
  const isInstalled = isTrue('WebhooksInstalled');
  await see<Conditioned>('the policy is installed', ADMISSION_POLICIES, { name: 'selectors' }, isInstalled);
  await see('the cert of db', secrets, { namespace: 'shop', name: 'db-tls' });
  const isFilled = (object: Carrier) =>
    KINDS.validatingwebhook.bundles(object).every((one) => one !== undefined);
  await see<Carrier>('their bundle', validatingWebhookConfigurations, { name: 'theirs' }, isFilled);
}

export async function askForRotation(cluster: Cluster, reason: string): Promise<void> {
  const annotations = { 'gatehouse.dev/rotate': reason };
  await cluster.admin.patchMerge<SecretObject>(secrets, AUTHORITY, { metadata: { annotations } });
}

export function standingOf(events: readonly TrustEvent[]) {
  const bundles = new Map<string, string>();
  const chains = new Map<string, string>();
  let authority: Authority | undefined;
  for (const event of events) {
    if (event.kind === 'authority') authority = event.authority;
    else if (event.kind === 'bundle') bundles.set(event.target, event.bundle);
    else chains.set(event.target, event.chain);
  }
  if (authority === undefined) throw new Error('there is no authority');
  return { authority, bundles, chains };
}

export function activeId(events: readonly TrustEvent[]): string {
  const { authority } = standingOf(events);
  const active = authority.generations.find(({ state }) => state === 'active');
  if (active === undefined) throw new Error('no generation is active');
  return active.id;
}

/** Waits for the end of a rotation away from `old`, whose last cert expires once every cert is replaced. */
export async function untilRotated(
  cluster: Pick<Cluster, 'admin'>,
  { events }: Pick<TrustHistory, 'events'>,
  old: string,
  reason: string,
  timeoutMs = 60_000,
): Promise<string> {
  const isReissued = (): boolean => {
    const { authority, chains } = standingOf(events());
    const isRetiring = authority.generations.some(({ id, state }) => id === old && state === 'retiring');
    return isRetiring && [...chains.values()].every((chain) => issuerId(leafOf(chain)) !== old);
  };
  await eventually(`the rotation ${reason} replaces every cert`, isReissued, { timeoutMs, everyMs: 50 });
  let ended = 0;
  return await eventually(
    `the rotation ${reason}`,
    async () => {
      const { authority, bundles, chains } = standingOf(events());
      const problem = problemOf(authority, bundles, chains, old, reason);
      if (problem === undefined) return activeId(events());
      // Another leader that has not seen the consent restores the record.
      if (authority.generations.length > 1 && performance.now() > ended) {
        await endTrust(cluster);
        ended = performance.now() + 3_000;
      }
      throw new Error(problem);
    },
    { timeoutMs, everyMs: 50 },
  );
}

function problemOf(
  { generations, gone = [], rotatedFor }: Authority,
  bundles: ReadonlyMap<string, string>,
  chains: ReadonlyMap<string, string>,
  old: string,
  reason: string,
): string | undefined {
  const states = generations.map(({ id, state }) => `${id} ${state}`).join();
  const id = generations[0]?.id;
  if (generations.length !== 1 || id === undefined || id === old) return `the generations are ${states}`;
  if (!gone.includes(old)) return `${old} is forgotten instead of gone`;
  if (rotatedFor !== reason) return `the last rotation was for ${rotatedFor ?? 'nothing'}`;
  for (const [target, bundle] of bundles)
    if (rootIds(bundle).join() !== id) return `${target} has the roots ${rootIds(bundle).join()}`;
  for (const [target, chain] of chains) {
    const signer = issuerId(leafOf(chain));
    if (signer !== id) return `${target} has a leaf of ${signer}`;
    if (chain.split('BEGIN CERTIFICATE').length !== 2)
      return `${target} serves a bridge to a root that is gone`;
  }
  return undefined;
}
