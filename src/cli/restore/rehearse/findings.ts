/** The findings of a rehearsal: what a restore would lose or break, and what only works because checks are deferred. */
import type { Violation } from '../../../api/restore-window.ts';
import {
  type GroupResource,
  groupResourceName,
  keyOf,
  type KubeObject,
  objectKey,
  type OwnerReference,
  splitApiVersion,
} from '../../../json/kube-object.ts';
import { type JsonObject, listIn, objectIn, textIn, uniqueBy } from '../../../json/json.ts';
import { GROUP } from '../../../api/group.ts';
import { DEFINITIONS } from '../../../machinery/crd/definition.ts';
import { governed } from '../../../runtime/policies/policy-kinds.ts';
import { NEVER } from '../../connect.ts';
import { describeOutcome, isRestored, type Outcome, setsFields, type Target } from './replay.ts';
import { isInScope, type NamespaceLabels } from '../../../admission/policy/match/object-scope.ts';
import type { QuiesceRule } from '../../../api/quiesce.ts';
import { type OwnerState, planLinks } from '../../../restore/owner-links.ts';
import { createSweep } from '../../../runtime/restores/sweep.ts';
import type { ApiObject } from '../../../machinery/api-object.ts';
import { toGroupResource } from '../../../api/policy-match.ts';
import type { BackupItem } from '../../../restore/backup/backup.ts';
import { mappedNamespace, type RestoreNames } from '../../../restore/backup/restored-object.ts';

export interface Finding {
  readonly severity: 'problem' | 'note';
  readonly reason: Reason;
  readonly object: string;
  readonly message: string;
}

type Reason =
  | Violation['reason']
  | 'Refused'
  | 'NotServed'
  | 'Incomplete'
  | 'OverQuota'
  | 'NotModified'
  | 'OwnerNotLinked'
  | 'OwnerNotRecorded'
  | 'WebhookUnreachable'
  | 'Deferred'
  | 'Exists'
  | 'NotPaused'
  | 'NotTried'
  | 'NotRead'
  | 'NotInBackup'
  | 'GuardRefuses'
  | 'GuardJudges'
  | 'NotGuarded';

/** Problems come first. `violations`: what the RestoreWindow of this restore would report. */
export async function findingsOf(target: Target, outcomes: readonly Outcome[], options: AfterOptions) {
  const swept = await violationsOf(target, outcomes, options);
  const backup = {
    kinds: new Set(outcomes.map(({ item }) => groupResourceName(item.resource))),
    leftOut: options.leftOut,
  };
  const findings = problemsFirst([
    ...outcomes.flatMap(ofOutcome),
    ...outcomes.flatMap((outcome) => notModified(describeOutcome(outcome), outcome.failed)),
    ...swept.map(({ name, violation }) =>
      problem(violation.reason, name, describeViolation(violation, target, backup)),
    ),
    ...lostOwners(target, outcomes),
    ...unreachableServices(target),
    ...unpausedWriters(outcomes, target.policies, options),
  ]);
  return { findings, violations: swept.map(({ violation }) => violation) };
}

export const isProblem = ({ severity }: Finding): boolean => severity === 'problem';

export const problemsFirst = (findings: readonly Finding[]): Finding[] => [
  ...findings.filter(isProblem),
  ...findings.filter((one) => !isProblem(one)),
];

const finding =
  (severity: Finding['severity']) =>
  (reason: Reason, object: string, message: string): Finding => ({ severity, reason, object, message });
export const problem = finding('problem');
export const note = finding('note');

function ofOutcome(outcome: Outcome): readonly Finding[] {
  const { result, message, deferred } = outcome;
  const object = describeOutcome(outcome);
  switch (result) {
    case 'refused':
    case 'kept':
    case 'unlabelled':
      return [problem('Refused', object, message)];
    case 'unserved':
      return [problem('NotServed', object, message)];
    case 'different':
      return [note('Exists', object, message)];
    case 'incomplete':
      return [
        problem('Incomplete', object, `its managedFields are not restored: ${message}`),
        ...deferredNote(object, deferred),
      ];
    case 'omitted':
    case 'exists':
      return [];
    case 'restored':
    case 'updated':
    case 'labelled':
      return deferredNote(object, deferred);
  }
}

/** Velero restores the object without the changes of the rule. */
export const notModified = (object: string, failed: readonly string[]): readonly Finding[] =>
  failed.map((why) => problem('NotModified', object, `a resource modifier fails: ${why}`));

const deferredNote = (object: string, deferred: string): readonly Finding[] =>
  deferred === '' ? [] : [note('Deferred', object, `passes only while checks are deferred: ${deferred}`)];

function describeViolation(
  { field, reason, message, policy, target: missing }: Violation,
  { kinds }: Target,
  backup: Pick<AfterOptions, 'leftOut'> & { readonly kinds: ReadonlySet<string> },
): string {
  const by = `(policy ${policy})`;
  if (missing === undefined) return `${field}: ${message ?? reason} ${by}`;
  const { group, resource, namespace, name } = missing;
  const kind = groupResourceName(missing);
  const what = `${kind} ${objectKey({ namespace, name })}`;
  if (reason === 'CrossesNamespaceMapping') return `${field}: still references ${what}, not the copy ${by}`;
  const isClusterScoped = kinds.registry.stored(group, resource)?.namespaced === false;
  const leftOut = backup.leftOut.get(what);
  const hint =
    leftOut !== undefined
      ? `; the backup contains it, but the restore leaves it out: ${leftOut}`
      : isClusterScoped && !backup.kinds.has(kind)
        ? `; the backup has no ${kind}: include cluster-scoped resources in the backup`
        : '';
  return `${field}: ${what} does not exist after the restore ${by}${hint}`;
}

interface AfterOptions {
  /** By kind and key: why the restore leaves out an object of the backup. */
  readonly leftOut: ReadonlyMap<string, string>;
  readonly quiesce: readonly QuiesceRule[];
  readonly namespaceMapping: Readonly<Record<string, string>>;
  readonly now: Date;
}

/** What the sweep of the restore would report about its objects, with the code of the sweep. */
async function violationsOf(
  target: Target,
  outcomes: readonly Outcome[],
  { namespaceMapping, now }: AfterOptions,
): Promise<readonly { readonly name: string; readonly violation: Violation }[]> {
  const { contents, kinds, inVersion, policies, world } = target;
  const sweep = createSweep({
    pages: async function* ({ group, resource, version }) {
      const type = version === undefined ? undefined : kinds.registry.find(group, version, resource);
      const objects = contents.list({ group, resource });
      if (type === undefined) yield objects;
      else yield await Promise.all(objects.map((object) => inVersion(object as ApiObject, type)));
    },
    keys: (kind) => Promise.resolve(new Set(contents.list(kind).map(keyOf))),
    lists: () => true,
    read: (ref) => Promise.resolve(contents.find(ref)),
    namespaceLabels: () => Promise.resolve(target.namespaceLabels()),
    policies: () => policies,
    world,
    pause: () => Promise.resolve(),
    now: () => now,
  });
  const { violations, unreadable } = await sweep({ interim: false, since: now, namespaceMapping }, NEVER);
  if (unreadable.length > 0) throw new Error(`could not check ${unreadable.join('; ')}`);
  const written = outcomes.filter((one) => isRestored(one) && setsFields(one));
  const restored = new Set(written.map(describeOutcome));
  return violations
    .map(({ resource, violation }) => ({
      name: `${groupResourceName(resource)} ${objectKey(violation.object)}`,
      violation,
    }))
    .filter(({ name }) => restored.has(name));
}

function lostOwners(target: Target, outcomes: readonly Outcome[]): readonly Finding[] {
  const namespaces = target.namespaceLabels();
  return outcomes.filter(isRestored).flatMap((outcome) => {
    const { item, namespace } = outcome;
    const name = describeOutcome(outcome);
    const object = target.contents.find({ ...item.resource, namespace, name: item.name });
    if (object === undefined) return [];
    if (preservesOwners(target.policies, item.resource, object, namespaces)) {
      const stateOf = (ref: OwnerReference) => ownerState(target, ref, namespace);
      const { verdicts } = planLinks(item.resource, object, stateOf);
      if (verdicts.length > 0)
        return verdicts
          .filter(({ result }) => result !== 'Linked')
          .map(({ ref, message = '' }) =>
            problem('OwnerNotLinked', name, `owner ${ref.kind} "${ref.name}": ${message}`),
          );
    }
    const { group, resource } = item.resource;
    const isCustom = target.kinds.registry.stored(group, resource)?.custom === true;
    const refs = listIn(item.object, 'metadata', 'ownerReferences');
    if (!isCustom || refs.length === 0) return [];
    const owners = refs.map((ref) => `${textIn(ref, 'kind')} "${textIn(ref, 'name')}"`).join(', ');
    const message = `its owners are lost (${owners}): no policy with preserveOwners recorded them before the backup`;
    return [note('OwnerNotRecorded', name, message)];
  });
}

const preservesOwners = (
  policies: Target['policies'],
  resource: GroupResource,
  object: KubeObject,
  namespaces: NamespaceLabels,
): boolean =>
  policies.some(
    (policy) =>
      policy.preservesOwners &&
      governed(policy).some((kind) => groupResourceName(kind) === groupResourceName(resource)) &&
      isInScope(policy, object, namespaces),
  );

function ownerState(
  { kinds, contents }: Target,
  { apiVersion, kind, name }: OwnerReference,
  namespace: string | undefined,
): OwnerState {
  const { group } = splitApiVersion(apiVersion);
  const type = kinds.registry.all().find((one) => one.group === group && one.kind === kind);
  const found =
    type === undefined
      ? undefined
      : contents.find({ ...type, namespace: type.namespaced ? namespace : undefined, name });
  if (found === undefined) return { kind: 'missing' };
  const { uid = '', deletionTimestamp } = found.metadata ?? {};
  const isTerminating = deletionTimestamp !== undefined;
  return { kind: 'found', uid, apiVersion, isTerminating, isDoubtful: false };
}

const CONFIGURATIONS = ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'];

const REGISTRATION = 'admissionregistration.k8s.io';
const API_SERVICES = { group: 'apiregistration.k8s.io', resource: 'apiservices' };
const OWN_LABELS = ['app.kubernetes.io/name', 'app.kubernetes.io/managed-by'];

/** What the API server needs a Service for, except Gatehouse's. */
interface Caller {
  readonly object: string;
  readonly service: JsonObject;
  readonly failure: string;
}

function unreachableServices({ contents }: Target): readonly Finding[] {
  const callers = [...webhooks(contents), ...conversions(contents), ...aggregatedApis(contents)];
  return callers.flatMap(({ object, service, failure }) => {
    const [namespace, name] = [textIn(service, 'namespace'), textIn(service, 'name')];
    if (name === '') return [];
    const exists = contents.find({ group: '', resource: 'services', namespace, name }) !== undefined;
    const message = exists
      ? `while the Pods of the Service ${namespace}/${name} are not ready, ${failure}: restore them first`
      : `the Service ${namespace}/${name} is not restored, so ${failure}: restore the Service and its Pods first, or leave this object out`;
    return (exists ? note : problem)('WebhookUnreachable', object, message);
  });
}

const webhooks = (contents: Target['contents']): readonly Caller[] =>
  CONFIGURATIONS.flatMap((resource) => contents.list({ group: REGISTRATION, resource }))
    .filter(({ metadata }) => !OWN_LABELS.some((label) => metadata?.labels?.[label] === 'gatehouse'))
    .flatMap((configuration) =>
      listIn(configuration, 'webhooks')
        .filter((webhook) => textIn(webhook, 'failurePolicy') !== 'Ignore')
        .map((webhook) => ({
          object: `${configuration.metadata?.name ?? ''} ${textIn(webhook, 'name')}`,
          service: objectIn(webhook, 'clientConfig', 'service'),
          failure: 'the writes that it matches are refused',
        })),
    );

/** Gatehouse converts the kinds of ConversionPolicies. The API server converts nothing if there is only one version. */
function conversions(contents: Target['contents']): readonly Caller[] {
  const converted = new Set(
    contents.list({ group: GROUP, resource: 'conversionpolicies' }).map((policy) => {
      const target = objectIn(policy, 'spec', 'target');
      return groupResourceName({ group: textIn(target, 'apiGroup'), resource: textIn(target, 'resource') });
    }),
  );
  return contents
    .list(DEFINITIONS)
    .filter((crd) => listIn(crd, 'spec', 'versions').length > 1 && !converted.has(crd.metadata?.name ?? ''))
    .map((crd) => ({
      object: `customresourcedefinitions.${DEFINITIONS.group} ${crd.metadata?.name ?? ''}`,
      service: objectIn(crd, 'spec', 'conversion', 'webhook', 'clientConfig', 'service'),
      failure: 'its objects cannot be converted: reads and writes in other versions fail',
    }));
}

const aggregatedApis = (contents: Target['contents']): readonly Caller[] =>
  contents.list(API_SERVICES).map((api) => ({
    object: `${groupResourceName(API_SERVICES)} ${api.metadata?.name ?? ''}`,
    service: objectIn(api, 'spec', 'service'),
    failure: 'requests to this API fail, and no namespace can be deleted',
  }));

const WORKLOADS = ['deployments.apps', 'statefulsets.apps', 'daemonsets.apps'];
const RBAC = 'rbac.authorization.k8s.io';
const VERBS = new Set(['create', 'delete', 'deletecollection', '*']);

/** Workloads that write to governed kinds and are not paused, so they can act on an incomplete cluster. */
function unpausedWriters(
  outcomes: readonly Outcome[],
  policies: Target['policies'],
  { quiesce, namespaceMapping }: AfterOptions,
): readonly Finding[] {
  const items = outcomes.map(({ item }) => item);
  const rights = writableByAccount(items, uniqueBy(policies.flatMap(governed), groupResourceName));
  return WORKLOADS.flatMap((resource) => ofResource(items, resource))
    .filter((workload) => !quiesce.some((rule) => pauses(rule, workload, { namespaceMapping })))
    .flatMap((workload) => {
      const writes = rights.get(accountOf(workload));
      if (writes === undefined) return [];
      const kinds = [...writes].toSorted().join(', ');
      return note(
        'NotPaused',
        `${groupResourceName(workload.resource)} ${objectKey(workload)}`,
        `its account can create or delete ${kinds} while other objects are still missing: add it to spec.quiesce of the RestoreDetector`,
      );
    });
}

const ofResource = (items: readonly BackupItem[], name: string): readonly BackupItem[] =>
  items.filter(({ resource }) => groupResourceName(resource) === name);

/** Rules use the namespaces of the cluster, not of the backup. */
const pauses = (
  rule: QuiesceRule,
  { resource, namespace, object }: BackupItem,
  names: Pick<RestoreNames, 'namespaceMapping'>,
): boolean =>
  groupResourceName(toGroupResource(rule)) === groupResourceName(resource) &&
  (rule.namespaces?.includes(mappedNamespace(namespace, names) ?? '') ?? true) &&
  Object.entries(rule.matchLabels ?? {}).every(
    ([key, wanted]) => textIn(object, 'metadata', 'labels', key) === wanted,
  );

function accountOf({ object, namespace = '' }: BackupItem): string {
  const name = textIn(object, 'spec', 'template', 'spec', 'serviceAccountName');
  return `${namespace}/${name === '' ? 'default' : name}`;
}

function writableByAccount(
  items: readonly BackupItem[],
  written: readonly GroupResource[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const roles = new Map(
    ['clusterroles', 'roles'].flatMap((resource) =>
      ofResource(items, `${resource}.${RBAC}`).map(({ object, namespace = '', name }) => [
        `${resource}/${namespace}/${name}`,
        written.filter((kind) => listIn(object, 'rules').some((rule) => allows(rule, kind))),
      ]),
    ),
  );
  const found = new Map<string, Set<string>>();
  for (const resource of ['clusterrolebindings', 'rolebindings'])
    for (const { object, namespace = '' } of ofResource(items, `${resource}.${RBAC}`)) {
      const isRole = textIn(object, 'roleRef', 'kind') === 'Role';
      const role = `${isRole ? `roles/${namespace}` : 'clusterroles/'}/${textIn(object, 'roleRef', 'name')}`;
      const kinds = (roles.get(role) ?? []).map(groupResourceName);
      if (kinds.length === 0) continue;
      for (const subject of listIn(object, 'subjects')) {
        if (textIn(subject, 'kind') !== 'ServiceAccount') continue;
        const account = `${textIn(subject, 'namespace')}/${textIn(subject, 'name')}`;
        found.set(account, new Set([...(found.get(account) ?? []), ...kinds]));
      }
    }
  return found;
}

function allows(rule: unknown, { group, resource }: GroupResource): boolean {
  const has = (key: string, accept: (value: unknown) => boolean) => listIn(rule, key).some(accept);
  return (
    has('verbs', (verb) => typeof verb === 'string' && VERBS.has(verb)) &&
    has('apiGroups', (one) => one === group || one === '*') &&
    has('resources', (one) => one === resource || one === '*')
  );
}
