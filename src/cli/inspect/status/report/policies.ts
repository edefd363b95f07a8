import type { AdmissionPolicy } from '../../../../api/admission-policy.ts';
import { unreadOf, valueOf, type Judged, type Listing, type Reading } from '../../read-cluster/reading.ts';
import { handlerOfEntry } from '../../../../admission/handlers/compile-handler.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import type { ClusterReadings } from '../../read-cluster/read-cluster.ts';

export type PolicyRow = ReturnType<typeof rowOf>;

export function admissionPoliciesPart(
  policies: Reading<readonly AdmissionPolicy[]>,
): Judged<Listing<PolicyRow>> {
  const items = (valueOf(policies) ?? []).map(rowOf).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return {
    part: { unread: unreadOf('AdmissionPolicies', policies), items },
    problems: items.flatMap(({ name, message }) =>
      message === undefined ? [] : [{ object: `AdmissionPolicy ${name}`, ...adviceOn(name, message) }],
    ),
  };
}

/** Replaces a ClusterRole in the message, which cannot be copied from a table, with a command. */
export function adviceOn(name: string, message: string) {
  const [first = '', ...further] = message.split('\n');
  if (!further.includes('kind: ClusterRole')) return { message };
  return {
    message: first.replace(/ Add this ClusterRole:$/, ' To allow it, run'),
    command: `kubectl get admissionpolicy ${name} -o yaml | gatehouse manifests -p - | kubectl apply -f -`,
  };
}

/** Conditions about `onTargetDelete`; a policy has them only while they are false. */
const ACTIONS: readonly string[] = ['ActionsPermitted', 'DeletionsFinished'];

function rowOf(policy: AdmissionPolicy) {
  const { metadata, spec, status } = policy;
  const ready = conditionOf(policy, 'Ready');
  const webhooksInstalled = conditionOf(policy, 'WebhooksInstalled');
  const waiting = status?.conditions?.find((one) => ACTIONS.includes(one.type) && one.status === 'False');
  const message =
    [ready, webhooksInstalled].find(({ status: is }) => is !== 'True')?.message ?? waiting?.message;
  const { total, checked, checkedAt, message: incomplete } = status?.violations ?? {};
  return {
    name: metadata.name ?? '',
    enforcement: spec.enforcement ?? 'Deny',
    ready: ready.status,
    webhooksInstalled: webhooksInstalled.status,
    /** Undefined before the first audit, and if an incomplete audit found none. */
    violations: total === 0 && incomplete !== undefined ? undefined : total,
    objects: checked,
    checkedAt,
    incomplete,
    message,
  };
}

export function conditionOf(
  { metadata, status }: AdmissionPolicy,
  type: string,
): { readonly status: 'True' | 'False' | 'Unknown'; readonly message: string } {
  const condition = status?.conditions?.find((one) => one.type === type);
  const { generation } = metadata;
  if (condition === undefined || (condition.observedGeneration ?? generation) !== generation)
    return {
      status: 'Unknown',
      message: 'the leader has not processed its current generation: check the leader',
    };
  return condition;
}

export type HandlerRow = ReturnType<typeof handlersIn>[number];

export function handlersIn({ targets }: Pick<ClusterReadings, 'targets'>) {
  const namesIn = (kind: string): ReadonlySet<string> =>
    new Set(
      targets
        .filter((reading) => reading.kind.kind === kind)
        .flatMap(({ objects }) => valueOf(objects) ?? [])
        .filter(({ metadata }) => metadata?.name === WEBHOOK_CONFIGURATION_NAME)
        .flatMap(({ webhooks = [] }) => webhooks)
        .flatMap(({ name }) => handlerOfEntry(name.split('.')[0] ?? '') ?? []),
    );
  const mutating = namesIn('MutatingWebhookConfiguration');
  const validating = namesIn('ValidatingWebhookConfiguration');
  return [...new Set([...mutating, ...validating])]
    .toSorted()
    .map((name) => ({ name, mutates: mutating.has(name), validates: validating.has(name) }));
}
