/**
 * Sends the same generated requests three times to a kube-apiserver: judged by the webhook, by compiled policies with Gatehouse alive, and
 * with Gatehouse killed. `node scripts/differential.ts --requests 50000 --seed 1`; `--seed` and `--round` repeat a round. The exit code is 1
 * after a difference. The lists of what the API server enforces, and how its answers differ, are in docs/api-server-policies.md.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import type { AdmissionPolicyStatus } from '../src/api/admission-policy.ts';
import { objectIn } from '../src/json/json.ts';
import type { KubeObject } from '../src/json/kube-object.ts';
import { mapConcurrent } from '../src/json/map-concurrent.ts';
import { configMaps } from '../src/kube/well-known.ts';
import { perSecond, whole } from './bench/table.ts';
import { GROUP } from '../test/support/admission/policy.ts';
import { ADMISSION_POLICIES, established, type Cluster } from '../test/support/cluster.ts';
import { startGatehouse, untilRefused } from '../test/support/gatehouse-cluster.ts';
import { startReplica } from '../test/support/gatehouse.ts';
import { isAlike, isNotedAlike, verdictOf, type Verdict } from '../test/support/native/judge.ts';
import {
  KINDS,
  NAMESPACES,
  OPEN,
  SHARED_PARAMS,
  placesFrom,
  rawRequest,
  type Place,
  type RawRequest,
} from '../test/support/native/places.ts';
import {
  admissionPolicy,
  configMap,
  configMapsWith,
  isTrue,
  referencesRole,
  type Conditioned,
} from '../test/support/objects.ts';
import { eventually } from '../test/support/processes.ts';
import { createSeeded, type Seeded } from '../test/support/seeded.ts';
import { createTransport, type RawAnswer, type Transport } from '../test/support/transport.ts';

const { values: flags } = parseArgs({
  options: {
    requests: { type: 'string', default: '50000' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    round: { type: 'string', default: '0' },
    kinds: { type: 'string', default: '36' },
    each: { type: 'string', default: '250' },
  },
});
const CLIENTS = 12;
const STORED = 8;
const TRIES = 20;
/** Of a connection: kube-apiserver panics at some strategic merge patches, such as one with a map as the port of a Service. */
const CLOSED: RawAnswer = { status: 599, headers: {}, text: '{}' };

type Policy = Conditioned & { readonly status?: AdmissionPolicyStatus };
type Olds = ReadonlyMap<Place, readonly KubeObject[]>;

async function prepare(cluster: Cluster, places: readonly Place[]): Promise<void> {
  const definitions = [...KINDS, ...places.flatMap(({ definition }) => definition ?? [])];
  const namespace = (name: string, labels: object) =>
    ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }) as KubeObject;
  await cluster.applyFolder('components/compile-policies');
  await cluster.apply(
    ...[...definitions, OPEN, referencesRole('params', GROUP, ['classes', 'datacenters'])],
    ...NAMESPACES.map((name, index) =>
      namespace(name, { env: ['production', 'staging'][index], differential: 'true' }),
    ),
    namespace('platform', {}),
  );
  for (const { metadata } of definitions) await established(cluster, metadata?.name ?? '');
  const [shared] = SHARED_PARAMS;
  await cluster.apply(...SHARED_PARAMS, { ...shared, metadata: { name: 'limits', namespace: 'store' } });
}

/** Objects that requests change or delete. A finalizer delays the end of the last one. */
async function store({ admin }: Cluster, chance: Seeded, place: Place): Promise<readonly KubeObject[]> {
  const olds: KubeObject[] = [];
  for (let index = 0; index < 60 && olds.length < STORED; index += 1) {
    const { object } = place.askedFrom(chance, ['CREATE']);
    const { labels = {} } = objectIn(object, 'metadata');
    const isLast = olds.length === STORED - 1;
    const ref = {
      name: `old-${index}`,
      ...(place.kind.namespaced ? { namespace: chance.pick(NAMESPACES) } : {}),
    };
    const metadata = { ...ref, labels, ...(isLast ? { finalizers: ['a/b'] } : {}) };
    const stored = await admin
      .create(place.kind, { ...object, metadata } as KubeObject)
      .catch(() => undefined);
    if (stored === undefined) continue;
    if (isLast) await admin.delete(place.kind, ref);
    olds.push((isLast ? await admin.get<KubeObject>(place.kind, ref) : undefined) ?? stored);
  }
  return olds;
}

const policyName = ({ name }: Place) => `p-${name}`;
const policyOf = ({ admin }: Cluster, place: Place) =>
  admin.get<Policy>(ADMISSION_POLICIES, { name: policyName(place) });

/** @returns the places whose policy is in force; other policies are deleted */
async function install(cluster: Cluster, places: readonly Place[]): Promise<readonly Place[]> {
  const judged = await mapConcurrent(places, places.length, async (place) => {
    const name = policyName(place);
    const isInForce = async () => {
      const policy = await policyOf(cluster, place);
      if (policy !== undefined && isTrue('Ready')(policy) && isTrue('WebhooksInstalled')(policy)) return true;
      throw new Error(policy?.status?.conditions?.[0]?.message);
    };
    try {
      await cluster.admin.create(ADMISSION_POLICIES, admissionPolicy(name, place.spec));
      await eventually(name, isInForce, { timeoutMs: 20_000, everyMs: 1_000 });
      return [place];
    } catch (error) {
      const { cause = error } = error as Error;
      console.log(`  ${name} is not in force: ${String(cause).replaceAll('\n', ' ').slice(0, 160)}`);
      await cluster.admin.delete(ADMISSION_POLICIES, { name });
      return [];
    }
  });
  const match = configMapsWith({ written: 'last' });
  const rules = [{ name: 'no', expression: 'object.metadata.name != "last"' }];
  await cluster.apply(admissionPolicy('last', { match, validate: { rules } }));
  return judged.flat();
}

/** The API server takes over everything that it has seen before. */
const seeJudged = async ({ admin }: Cluster, by: 'admission webhook' | 'ValidatingAdmissionPolicy') => {
  const object = configMap('last', {}, { namespace: 'default', labels: { written: 'last' } });
  await untilRefused('the last ConfigMap', by, () => admin.create(configMaps, object, { dryRun: true }));
  await sleep(2_000);
};

/** Resolves when no policy has changed hands for some seconds. @returns how much of each policy the API server enforces: `2/3` */
async function settle(cluster: Cluster, places: readonly Place[]): Promise<ReadonlyMap<Place, string>> {
  let [last, since] = ['', performance.now()];
  const isSettled = async () => {
    const all = await mapConcurrent(places, 4, async (place) => {
      const { compiled = '', confirmed } = (await policyOf(cluster, place))?.status ?? {};
      return { place, compiled, confirmed };
    });
    const text = JSON.stringify(all.map(({ compiled, confirmed }) => [compiled, confirmed]));
    if (text !== last) [last, since] = [text, performance.now()];
    return performance.now() - since > 8_000 && new Map(all.map(({ place, compiled }) => [place, compiled]));
  };
  return await eventually('the compiled policies', isSettled, { timeoutMs: 300_000, everyMs: 1_000 });
}

async function send(
  { call }: Transport,
  token: string,
  { method, path, contentType, body, user }: RawRequest,
) {
  const { username, groups } = user;
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': contentType,
    'impersonate-user': username,
    ...(groups.length === 0 ? {} : { 'impersonate-group': [...groups] }),
  };
  for (let tries = 1; ; tries += 1) {
    const answer = await call({ method, path, headers, body }).catch(() => CLOSED);
    const isFinal = answer.status !== 429 && answer !== CLOSED && !answer.text.includes(': retry later');
    if (isFinal || tries === TRIES) return answer;
    await sleep(200);
  }
}

interface Asked {
  readonly place: Place;
  readonly request: RawRequest;
}

const auditId = ({ headers }: RawAnswer): string => headers['audit-id']?.[0] ?? '';

/** The annotations of each request, by its id. */
const auditLogOf = ({ plane }: Cluster, ids: readonly string[]) =>
  eventually(
    'the audit log',
    () => {
      const log = plane.auditLog() as readonly { auditID?: string; annotations?: Verdict['audit'] }[];
      const found = new Map(log.map(({ auditID = '', annotations = {} }) => [auditID, annotations]));
      return Promise.resolve(ids.every((id) => id === '' || found.has(id)) ? found : undefined);
    },
    { timeoutMs: 60_000, everyMs: 1_000 },
  );

const totals = {
  requests: 0,
  dead: 0,
  left: 0,
  refused: 0,
  invalid: 0,
  warned: 0,
  noted: 0,
  deletions: 0,
  differences: 0,
};

async function playRound(seed: number, round: number): Promise<void> {
  const chance = createSeeded(seed * 1_000 + round);
  const all = placesFrom(chance, Number(flags.kinds));
  const olds = new Map<Place, readonly KubeObject[]>();
  const { cluster, replica } = await startGatehouse({
    prepare: async (prepared) => {
      await prepare(prepared, all);
      for (const place of all) olds.set(place, await store(prepared, chance, place));
    },
  });
  const transport = createTransport(cluster.plane.server, cluster.plane.ca, CLIENTS);
  try {
    const places = await install(
      cluster,
      all.filter((place) => (olds.get(place) ?? []).length > 0),
    );
    const asked = askedOf(chance, places, olds);
    const token = cluster.plane.token('admin');
    const askAll = async (some: readonly Asked[]): Promise<ReadonlyMap<Asked, Verdict>> => {
      const started = performance.now();
      const answers = await mapConcurrent(
        some,
        CLIENTS,
        async (one) => [one, await send(transport, token, one.request)] as const,
      );
      console.log(
        `  ${whole(some.length)} requests, ${whole(perSecond(some.length, performance.now() - started))} a second`,
      );
      const audit = await auditLogOf(
        cluster,
        answers.map(([, answer]) => auditId(answer)),
      );
      return new Map(
        answers.map(([one, answer]) => [one, verdictOf(answer, audit.get(auditId(answer)) ?? {})]),
      );
    };
    await seeJudged(cluster, 'admission webhook');
    const webhook = await askAll(asked);
    await replica.program.stop(15_000);
    const compiling = await startReplica(cluster.plane, {
      name: 'two',
      port: replica.port,
      settings: { 'compile-policies': 'true' },
    });
    await compiling.whenReady();
    const compiled = await settle(cluster, places);
    await seeJudged(cluster, 'ValidatingAdmissionPolicy');
    const alive = await askAll(asked);
    compiling.program.kill('SIGKILL');
    await compiling.program.exited;
    const isWhole = ({ place }: Asked) => /^(\d+)\/\1$/.test(compiled.get(place) ?? '');
    const dead = await askAll(asked.filter(isWhole));
    for (const one of asked)
      compare(
        one,
        { webhook: webhook.get(one), alive: alive.get(one), dead: dead.get(one) },
        { where: `seed ${seed}, round ${round}`, notesFirst: cluster.plane.version.minor < 37 },
      );
  } finally {
    await transport.stop();
    await cluster.stop();
  }
}

const askedOf = (chance: Seeded, places: readonly Place[], olds: Olds): readonly Asked[] =>
  places.flatMap((place) =>
    Array.from({ length: Number(flags.each) }, () => ({
      place,
      request: rawRequest(chance, place, olds.get(place) ?? []),
    })),
  );

function compare(
  { place: { spec }, request }: Asked,
  verdicts: Readonly<Record<'webhook' | 'alive' | 'dead', Verdict | undefined>>,
  { where, notesFirst }: { readonly where: string; readonly notesFirst: boolean },
): void {
  const { webhook, alive, dead } = verdicts;
  if (webhook === undefined || alive === undefined) throw new Error('a request without an answer');
  const needsGatehouse =
    request.isDeleted || (spec.exceptions ?? []).some(({ expiresAt }) => expiresAt !== undefined);
  const isLeft =
    needsGatehouse && dead !== undefined && (dead.by === 'unreachable' || spec.failurePolicy === 'Ignore');
  totals.requests += 1;
  if (dead !== undefined) totals.dead += 1;
  if (isLeft) totals.left += 1;
  if (webhook.by === 'webhook') totals.refused += 1;
  else if (webhook.code >= 400) totals.invalid += 1;
  if (webhook.warnings.length > 0) totals.warned += 1;
  if (dead !== undefined && Object.keys(webhook.audit).length > 0) totals.noted += 1;
  if (request.method === 'DELETE') totals.deletions += 1;
  const isDeadAlike = (other: Verdict) =>
    isAlike(webhook, other, true) && isNotedAlike(webhook, other, notesFirst);
  if (isAlike(webhook, alive, dead !== undefined) && (dead === undefined || isLeft || isDeadAlike(dead)))
    return;
  totals.differences += 1;
  console.log(`DIFFERENCE ${where}: ${JSON.stringify({ request, ...verdicts, spec })}`);
}

const seed = Number(flags.seed);
for (let round = Number(flags.round); totals.requests < Number(flags.requests); round += 1) {
  console.log(`seed ${seed}, round ${round}`);
  await playRound(seed, round);
  console.log(`  ${JSON.stringify(totals)}`);
}
process.exitCode = totals.differences > 0 ? 1 : 0;
