/** The findings of a rehearsal: what a restore would lose or break, and what only works because checks are deferred. */
import type { Violation } from '../../../api/restore-window.ts';
import { groupResourceName, objectKey } from '../../../json/kube-object.ts';
import { foreignWebhooks, lostOwnersOf, sweepOf, type AfterOptions } from './after-state.ts';
import { describeOutcome, type Outcome } from './replay.ts';
import type { Target } from './target.ts';

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
