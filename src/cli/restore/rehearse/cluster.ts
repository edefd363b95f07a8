/** Reads a cluster: as a backup of everything, or as the target of a restore. */
import { EXCLUDE_FROM_BACKUP_LABEL, GROUP } from '../../../api/group.ts';
import { counted } from '../../../json/counted.ts';
import { messageOf } from '../../../json/abort.ts';
import { isJsonObject, type JsonObject, listIn, objectIn, textIn, uniqueBy } from '../../../json/json.ts';
import {
  type GroupResource,
  groupResourceName,
  type KubeObject,
  objectKey,
  splitApiVersion,
} from '../../../json/kube-object.ts';
import { mapConcurrent } from '../../../json/map-concurrent.ts';
import { ApiError } from '../../../kube/api-error.ts';
import type { Resource } from '../../../kube/object.ts';
import type { UserCluster } from '../../connect.ts';
import type { PlacedObject } from '../../review/input.ts';
import { isDefinition } from '../../review/kinds.ts';
import { isOwn } from '../../review/policies.ts';
import { type Finding, isProblem, note, problem } from './findings.ts';
import { describeOutcome, isRestored, type Outcome } from './replay.ts';

export interface BackedUpObject extends PlacedObject {
  /** From the backup, for kinds that the target does not serve. */
  readonly resource?: GroupResource;
}

export interface ClusterObjects {
  readonly objects: readonly BackedUpObject[];
  readonly notes: readonly string[];
  /** For each kind that could not be read. */
  readonly unread: readonly Finding[];
}

const LEFT_OUT = ['bindings', 'componentstatuses', 'events', 'events.events.k8s.io'];
const VIRTUAL_GROUPS = ['metrics.k8s.io', 'authentication.k8s.io', 'authorization.k8s.io'];

export async function readEverything(cluster: UserCluster): Promise<ClusterObjects> {
  const groups = ['', ...(await cluster.discovery.groups())].filter(
    (group) => !VIRTUAL_GROUPS.includes(group),
  );
  const failed: Finding[] = [];
  const served = await mapConcurrent(groups, AT_ONCE, async (group) => {
    try {
      return await cluster.discovery.servedIn(group);
    } catch (error) {
      // As for kubectl: an aggregated API that is down hides no other API.
      if (!(error instanceof ApiError)) throw error;
      failed.push(notRead(group, error));
      return [];
    }
  });
  const { objects, unread } = await readKinds(cluster, served.flat());
  const kept = objects.filter(({ object }) => isOwn(object) || isBackedUp(object));
  const left = objects.length - kept.length;
  return {
    objects: kept,
    unread: [...failed, ...unread],
    notes: left === 0 ? [] : [`${counted(left, 'object')} left out: no backup would contain them`],
  };
}

const notRead = (name: string, error: unknown): Finding =>
  problem('NotRead', name, `could not be read, so its problems are unknown: ${messageOf(error)}`);

/** Velero skips labelled objects and objects that are being deleted. */
const isBackedUp = (object: JsonObject): boolean =>
  textIn(object, 'metadata', 'labels', EXCLUDE_FROM_BACKUP_LABEL) !== 'true' &&
  textIn(object, 'metadata', 'deletionTimestamp') === '';

const OWN_KINDS = ['admissionpolicies', 'conversionpolicies', 'policyexceptions', 'restoredetectors'].map(
  (resource) => ({ group: GROUP, resource }),
);
const ALWAYS = [
  { group: '', resource: 'namespaces' },
  { group: '', resource: 'services' },
  { group: '', resource: 'resourcequotas' },
  { group: 'apiregistration.k8s.io', resource: 'apiservices' },
  { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' },
  { group: 'admissionregistration.k8s.io', resource: 'mutatingwebhookconfigurations' },
  { group: 'admissionregistration.k8s.io', resource: 'validatingwebhookconfigurations' },
];

/** What affects a restore into this cluster: the kinds of the backup, and the kinds in policies. */
export async function readTarget(
  cluster: UserCluster,
  backup: readonly PlacedObject[],
  given: readonly PlacedObject[],
): Promise<ClusterObjects> {
  const { discovery } = cluster;
  const first = await readKinds(cluster, await resolved(cluster, [...ALWAYS, ...OWN_KINDS]));
  const policies = [...given, ...first.objects]
    .filter(({ object }) => textIn(object, 'kind') === 'AdmissionPolicy')
    .flatMap(({ object }) => namedIn(object));
  const kinds = uniqueBy(
    backup.map(({ object }) => ({
      ...splitApiVersion(textIn(object, 'apiVersion')),
      kind: textIn(object, 'kind'),
    })),
    ({ group, kind }) => `${group}/${kind}`,
  );
  const ofBackup = await Promise.all(kinds.map((kind) => discovery.resolveKind(kind)));
  const known = new Set([...ALWAYS, ...OWN_KINDS].map(groupResourceName));
  const others = [...ofBackup.filter((kind) => kind !== undefined), ...(await resolved(cluster, policies))];
  const rest = await readKinds(
    cluster,
    others.filter((kind) => !known.has(groupResourceName(kind))),
  );
  return {
    objects: [...first.objects, ...rest.objects],
    notes: [],
    unread: [...first.unread, ...rest.unread],
  };
}

export async function readPolicies(cluster: UserCluster) {
  const definitions = ALWAYS.filter(({ resource }) => resource === 'customresourcedefinitions');
  const { objects, unread } = await readKinds(
    cluster,
    await resolved(cluster, [...OWN_KINDS, ...definitions]),
  );
  if (unread.length > 0)
    throw new Error(unread.map(({ object, message }) => `${object}: ${message}`).join('; '));
  return {
    policies: objects.filter((one) => !isDefinition(one)),
    definitions: objects.filter(isDefinition),
  };
}

const namedIn = (policy: JsonObject): readonly GroupResource[] =>
  [
    ...listIn(policy, 'spec', 'validate', 'references').map((reference) => objectIn(reference, 'target')),
    objectIn(policy, 'spec', 'params'),
  ]
    .map((target) => ({ group: textIn(target, 'apiGroup'), resource: textIn(target, 'resource') }))
    .filter(({ resource }) => resource !== '');

async function resolved({ discovery }: UserCluster, kinds: readonly GroupResource[]) {
  const found = await Promise.all(kinds.map((kind) => discovery.resolve(kind)));
  return found.filter((kind) => kind !== undefined);
}

async function readKinds(
  { client, server }: UserCluster,
  kinds: readonly Resource[],
): Promise<ClusterObjects> {
  const objects: PlacedObject[] = [];
  const unread: Finding[] = [];
  const preferred = [...Map.groupBy(kinds, groupResourceName).values()].flatMap((same) => same.slice(0, 1));
  const once = preferred.filter(
    (kind) => !kind.resource.includes('/') && !LEFT_OUT.includes(groupResourceName(kind)),
  );
  for (const kind of once) {
    const name = groupResourceName(kind);
    try {
      for await (const { items } of client.pages<KubeObject>(kind))
        for (const item of items) {
          const object: unknown = item;
          if (!isJsonObject(object)) continue;
          objects.push({ object, place: { file: `${server}: ${name} ${objectKey(item.metadata ?? {})}` } });
        }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // 404 and 405: the kind cannot be listed, so no backup contains it.
      if (error.code !== 404 && error.code !== 405) unread.push(notRead(name, error));
    }
  }
  return { objects, notes: [], unread };
}

const AT_ONCE = 8;

export interface DryRun {
  /** With what is refused. */
  readonly outcomes: readonly Outcome[];
  readonly findings: readonly Finding[];
}

/** What the target's API server says about writes. Gatehouse's own refusals do not count: no window is open now. */
export async function dryRun(
  { client, discovery }: UserCluster,
  outcomes: readonly Outcome[],
  hasNamespace: (name: string) => boolean,
): Promise<DryRun> {
  const isTried = ({ item, namespace, result }: Outcome) =>
    (result === 'updated' || result === 'restored' || result === 'incomplete') &&
    groupResourceName(item.resource) !== 'namespaces' &&
    (namespace === undefined || hasNamespace(namespace));
  const restored = new Set(outcomes.filter(isRestored).map(describeOutcome));
  const tried = await mapConcurrent(outcomes, AT_ONCE, async (outcome) => {
    if (!isTried(outcome)) return { outcome };
    const { item, namespace, object, patch } = outcome;
    const wanted = { ...splitApiVersion(textIn(object, 'apiVersion')), kind: textIn(object, 'kind') };
    const kind = await discovery.resolveKind(wanted);
    if (kind?.version !== wanted.version) return { outcome }; // the backup brings its CRD
    try {
      await (patch === undefined
        ? client.create(kind, object, { dryRun: true })
        : client.patchMerge(kind, { namespace, name: item.name }, patch, { dryRun: true }));
      return { outcome };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (isExpected(error, (one) => restored.has(`serviceaccounts ${namespace ?? ''}/${one}`)))
        return { outcome };
      const finding = refusalOf(describeOutcome(outcome), error);
      if (!isProblem(finding)) return { outcome, finding };
      const result = patch === undefined ? ('refused' as const) : ('kept' as const);
      return { outcome: { ...outcome, result, message: finding.message }, finding };
    }
  });
  return {
    outcomes: tried.map(({ outcome }) => outcome),
    findings: tried.flatMap(({ finding }) => finding ?? []),
  };
}

/** The restore brings the account of a Pod before the Pod. */
function isExpected({ reason, message }: ApiError, hasAccount: (name: string) => boolean): boolean {
  const [, account] = / serviceaccount "([^"]*)" not found$/.exec(message) ?? [];
  if (account !== undefined) return hasAccount(account);
  return reason === 'AlreadyExists' || / webhook "[^"]*gatehouse\.dev"/.test(message);
}

const refusalOf = (object: string, { code, message }: ApiError): Finding =>
  code === 403 && / cannot (?:create|patch) resource /.test(message)
    ? note('NotTried', object, `no dry run: ${message}`)
    : problem('Refused', object, `a dry run is refused: ${message}`);
