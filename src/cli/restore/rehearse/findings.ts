/** The findings of a rehearsal: what a restore would lose or break, and what only works because checks are deferred. */
import type { Violation } from '../../../api/restore-window.ts';
import {
  groupResourceName,
  objectKey,
  keyOf,
  splitApiVersion,
  type GroupResource,
  type KubeObject,
  type OwnerReference,
} from '../../../json/kube-object.ts';
import { uniqueBy } from '../../../json/objects.ts';
import { governed } from '../../../runtime/policies/policy-kinds.ts';
import { describeOutcome, type Outcome } from './replay.ts';
import type { Target } from './target.ts';
import { unpausedWriters } from './writers.ts';
import { isInScope, type NamespaceLabels } from '../../../admission/policy/match/object-scope.ts';
import type { QuiesceRule } from '../../../api/quiesce.ts';
import { listIn, objectIn, textIn } from '../../../json/json.ts';
import { planLinks, type OwnerState } from '../../../restore/owner-links.ts';
import { createSweep } from '../../../runtime/restores/sweep.ts';
import type { ApiObject } from '../../../machinery/api-object.ts';

export interface Finding {
  /** `problem`: the restore loses or breaks something. `note`: it works, and the user should know. */
  readonly severity: 'problem' | 'note';
  readonly reason: Reason;
  /** e.g. `servers.infra.example.com shop/db` */
  readonly object: string;
  readonly message: string;
}

export type Reason =
  | Violation['reason']
  | 'Refused'
  | 'NotServed'
  | 'Incomplete'
  | 'OwnerNotLinked'
  | 'OwnerNotRecorded'
  | 'WebhookUnreachable'
  | 'Deferred'
  | 'Exists'
  | 'NotPaused'
  | 'NotTried';

export interface Findings {
  /** Problems first. */
  readonly findings: readonly Finding[];
  /** What the RestoreWindow of this restore would report. */
  readonly violations: readonly Violation[];
}

export async function findingsOf(
  target: Target,
  outcomes: readonly Outcome[],
  options: AfterOptions,
): Promise<Findings> {
  const { unlinked, unrecorded } = lostOwnersOf(target, outcomes);
  const swept = await violationsOf(target, outcomes, options);
  const backedUp = new Set(outcomes.map(({ item }) => groupResourceName(item.resource)));
  const writers = unpausedWriters(
    outcomes.map(({ item }) => item),
    uniqueBy(target.policies.flatMap(governed), groupResourceName),
    options.quiesce,
    options,
  );
  const found = [
    ...outcomes.flatMap(ofOutcome),
    ...swept.map(({ name, violation }) =>
      problem(violation.reason, name, describeViolation(violation, target, backedUp)),
    ),
    ...unlinked.map(({ outcome, message }) => problem('OwnerNotLinked', describeOutcome(outcome), message)),
    ...unrecorded.map(({ outcome, message }) => note('OwnerNotRecorded', describeOutcome(outcome), message)),
    ...foreignWebhooks(target).map(({ name, service, exists }) =>
      exists
        ? note(
            'WebhookUnreachable',
            name,
            `while the Pods of the Service ${service} are not ready, the writes that it matches are refused: restore them first`,
          )
        : problem(
            'WebhookUnreachable',
            name,
            `the Service ${service} is not restored, so the writes that it matches are refused: leave the configuration out, or restore the Service`,
          ),
    ),
    ...writers.map(({ workload, writes }) =>
      note(
        'NotPaused',
        `${groupResourceName(workload.resource)} ${objectKey(workload)}`,
        `its account may create or delete ${writes.join(', ')}, also while other objects are still missing: name it in spec.quiesce of the RestoreDetector`,
      ),
    ),
  ];
  return {
    findings: [...found.filter(isProblem), ...found.filter((one) => !isProblem(one))],
    violations: swept.map(({ violation }) => violation),
  };
}

export const isProblem = ({ severity }: Finding): boolean => severity === 'problem';

const problem = (reason: Reason, object: string, message: string): Finding => ({
  severity: 'problem',
  ...{ reason, object, message },
});

const note = (reason: Reason, object: string, message: string): Finding => ({
  severity: 'note',
  ...{ reason, object, message },
});

function ofOutcome(outcome: Outcome): readonly Finding[] {
  const { result, message, deferred } = outcome;
  const object = describeOutcome(outcome);
  switch (result) {
    case 'refused':
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
    case 'restored':
    case 'exists':
      return deferredNote(object, deferred);
  }
}

const deferredNote = (object: string, deferred: string): readonly Finding[] =>
  deferred === '' ? [] : [note('Deferred', object, `passes only while checks are deferred: ${deferred}`)];

/** The violations of restored objects: those of older objects are not the restore's. */
async function violationsOf(
  target: Target,
  outcomes: readonly Outcome[],
  options: AfterOptions,
): Promise<readonly { readonly name: string; readonly violation: Violation }[]> {
  const restored = new Set(
    outcomes.filter(({ result }) => result === 'restored' || result === 'incomplete').map(describeOutcome),
  );
  const swept = await sweepOf(target, options);
  return swept
    .map(({ resource, violation }) => ({
      name: `${groupResourceName(resource)} ${objectKey(violation.object)}`,
      violation,
    }))
    .filter(({ name }) => restored.has(name));
}

function describeViolation(
  { field, reason, message, policy, target: missing }: Violation,
  { kinds }: Target,
  backedUp: ReadonlySet<string>,
): string {
  const by = `(policy ${policy})`;
  if (missing === undefined) return `${field}: ${message ?? reason} ${by}`;
  const { resource, namespace, name } = missing;
  const group = missing.group;
  const kind = groupResourceName({ group, resource });
  const what = `${kind} ${objectKey({ namespace, name })}`;
  if (reason === 'CrossesNamespaceMapping')
    return `${field}: names ${what} in the namespace of the original ${by}`;
  const isClusterScoped = kinds.registry.stored(group, resource)?.namespaced === false;
  const hint =
    isClusterScoped && !backedUp.has(kind)
      ? `; the backup has no ${kind}: include cluster-scoped resources in the backup`
      : '';
  return `${field}: ${what} is not there after the restore ${by}${hint}`;
}

const NEVER = new AbortController().signal;

interface AfterOptions {
  /** What the window pauses. */
  readonly quiesce: readonly QuiesceRule[];
  readonly namespaceMapping: Readonly<Record<string, string>>;
  readonly now: Date;
}

/** The violations that the sweep of the restore would report, with the same code. */
async function sweepOf(
  target: Target,
  { namespaceMapping, now }: AfterOptions,
): Promise<readonly { readonly resource: GroupResource; readonly violation: Violation }[]> {
  const { contents, kinds, inVersion, policies, world } = target;
  const sweep = createSweep({
    pages: async function* ({ group, resource, version }) {
      const type = version === undefined ? undefined : kinds.registry.find(group, version, resource);
      const objects = contents.list({ group, resource });
      if (type === undefined) yield objects;
      // `contents` holds what the machinery stored
      else yield await Promise.all(objects.map((object) => inVersion(object as ApiObject, type)));
    },
    keys: (kind) => Promise.resolve(new Set(contents.list(kind).map(keyOf))),
    read: (ref) => Promise.resolve(contents.find(ref)),
    namespaceLabels: () => Promise.resolve(target.namespaceLabels()),
    policies: () => policies,
    world,
    pause: () => Promise.resolve(),
    now: () => now,
  });
  const { violations, unreadable } = await sweep({ interim: false, since: now, namespaceMapping }, NEVER);
  if (unreadable.length > 0) throw new Error(`could not check ${unreadable.join('; ')}`);
  return violations;
}

/** An owner reference that is not there after the restore. */
interface LostOwner {
  readonly outcome: Outcome;
  readonly message: string;
}

/** The recorded owners that the sweep could not link, and the owners that no policy has recorded. */
function lostOwnersOf(target: Target, outcomes: readonly Outcome[]) {
  const unlinked: LostOwner[] = [];
  const unrecorded: LostOwner[] = [];
  const namespaces = target.namespaceLabels();
  for (const outcome of outcomes) {
    const { item, namespace } = outcome;
    if (outcome.result !== 'restored' && outcome.result !== 'incomplete') continue;
    const object = target.contents.find({ ...item.resource, namespace, name: item.name });
    const refs = listIn(item.object, 'metadata', 'ownerReferences');
    if (object === undefined) continue;
    if (preservesOwners(target.policies, item.resource, object, namespaces)) {
      const stateOf = (ref: OwnerReference) => ownerState(target, ref, namespace);
      const { verdicts } = planLinks(item.resource, object, stateOf);
      for (const { ref, result, message = '' } of verdicts)
        if (result !== 'Linked') unlinked.push({ outcome, message: `${describeOwner(ref)}: ${message}` });
      if (verdicts.length > 0) continue;
    }
    const isCustom =
      target.kinds.registry.stored(item.resource.group, item.resource.resource)?.custom === true;
    if (isCustom && refs.length > 0)
      unrecorded.push({
        outcome,
        message: `its owners are lost (${refs.map((ref) => `${textIn(ref, 'kind')} "${textIn(ref, 'name')}"`).join(', ')}): no policy with preserveOwners recorded them before the backup`,
      });
  }
  return { unlinked, unrecorded };
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

const describeOwner = ({ kind, name }: OwnerReference): string => `owner ${kind} "${name}"`;

const CONFIGURATIONS = ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'];

const REGISTRATION = 'admissionregistration.k8s.io';

/** A webhook of others that refuses writes while its Service does not answer. */
interface ForeignWebhook {
  readonly name: string;
  readonly service: string;
  /** Whether the Service exists after the restore; its Pods may start later. */
  readonly exists: boolean;
}

/** Webhooks with `failurePolicy: Fail`, except those of Gatehouse. */
function foreignWebhooks({ contents }: Target): readonly ForeignWebhook[] {
  return CONFIGURATIONS.flatMap((resource) =>
    contents
      .list({ group: REGISTRATION, resource })
      .filter(({ metadata }) => metadata?.labels?.['app.kubernetes.io/name'] !== 'gatehouse')
      .flatMap((configuration) =>
        listIn(configuration, 'webhooks').flatMap((webhook) => {
          const service = objectIn(webhook, 'clientConfig', 'service');
          const [namespace, name] = [textIn(service, 'namespace'), textIn(service, 'name')];
          if (name === '' || textIn(webhook, 'failurePolicy') === 'Ignore') return [];
          const ref = { group: '', resource: 'services', namespace, name };
          return [
            {
              name: `${configuration.metadata?.name ?? ''} ${textIn(webhook, 'name')}`,
              service: `${namespace}/${name}`,
              exists: contents.find(ref) !== undefined,
            },
          ];
        }),
      ),
  );
}
