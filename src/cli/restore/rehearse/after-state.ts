/** What is wrong when a rehearsed restore has ended: the sweep, the owner links and the webhooks of others. */
import { isInScope, type NamespaceLabels } from '../../../admission/policy/match/object-scope.ts';
import type { Violation } from '../../../api/restore-window.ts';
import { listIn, objectIn, textIn } from '../../../json/json.ts';
import {
  groupResourceName,
  keyOf,
  splitApiVersion,
  type GroupResource,
  type KubeObject,
  type OwnerReference,
} from '../../../json/kube-object.ts';
import { planLinks, type OwnerState } from '../../../restore/owner-links.ts';
import { governed } from '../../../runtime/policies/policy-kinds.ts';
import { createSweep } from '../../../runtime/restores/sweep.ts';
import type { ApiObject } from '../../../sandbox/machinery/api-object.ts';
import type { Outcome } from './replay.ts';
import type { Target } from './target.ts';

const NEVER = new AbortController().signal;

export interface AfterOptions {
  readonly namespaceMapping: Readonly<Record<string, string>>;
  readonly now: Date;
}

/** The violations that the sweep of the restore would report, with the same code. */
export async function sweepOf(
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
export interface LostOwner {
  readonly outcome: Outcome;
  readonly message: string;
}

/** The recorded owners that the sweep could not link, and the owners that no policy has recorded. */
export function lostOwnersOf(target: Target, outcomes: readonly Outcome[]) {
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
export interface ForeignWebhook {
  readonly name: string;
  readonly service: string;
  /** Whether the Service exists after the restore; its Pods may start later. */
  readonly exists: boolean;
}

/** Webhooks with `failurePolicy: Fail`, except those of Gatehouse. */
export function foreignWebhooks({ contents }: Target): readonly ForeignWebhook[] {
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
