/** What the guard of the restore would refuse. */
import { unchanged } from '../../../admission/webhooks/restore-guard.ts';
import {
  DANGERS,
  type Danger,
  GUARD_ADVICE,
  GUARDED_KINDS,
  UNGUARDED_KINDS,
} from '../../../api/restore-guard.ts';
import { compileCel } from '../../../cel/cel.ts';
import { type GroupResource, groupResourceName, objectKey } from '../../../json/kube-object.ts';
import { type Guard, guardProblem, type PermissionWrite, type Rights } from '../../../restore/guard.ts';
import { isJsonObject } from '../../../json/json.ts';
import type { BackupItem } from '../../../restore/backup/backup.ts';
import { mappedNamespace, type RestoreNames } from '../../../restore/backup/restored-object.ts';
import { type Finding, note, problem } from './findings.ts';
import { isRestored, type Outcome, type Target } from './replay.ts';

export interface GuardedWrite extends PermissionWrite {
  readonly name: string;
}

/** The replay changes the target, so this reads the existing objects before it. */
export function beforeReplay({ contents }: Target, items: readonly BackupItem[], names: RestoreNames) {
  const kinds = [UNGUARDED_KINDS, ...Object.values(GUARDED_KINDS)].flat();
  const before = new Map(
    items
      .filter(({ resource }) => isIn(kinds, resource))
      .map((item) => {
        const namespace = mappedNamespace(item.namespace, names);
        const found: unknown = contents.find({ ...item.resource, namespace, name: item.name });
        return [item, isJsonObject(found) ? found : undefined];
      }),
  );
  return (outcomes: readonly Outcome[]): readonly GuardedWrite[] =>
    outcomes
      .filter((outcome) => isRestored(outcome) && before.has(outcome.item))
      .map(({ item, namespace }) => ({ ...item, namespace, oldObject: before.get(item) }));
}

/** @param rightsOf absent without a cluster to ask */
export async function guardFindings(
  guard: Guard,
  writes: readonly GuardedWrite[],
  rightsOf: ((guard: Guard) => Rights | undefined) | undefined,
): Promise<readonly Finding[]> {
  const found = await Promise.all(
    writes.map(async (write): Promise<readonly Finding[]> => {
      const { resource, namespace, name } = write;
      const object = `${groupResourceName(resource)} ${objectKey({ namespace, name })}`;
      if (guard.refuse.includes('AdmissionObjects') && isIn(UNGUARDED_KINDS, resource))
        return [problem('NotGuarded', object, `the API server lets no guard judge it: ${GUARD_ADVICE}`)];
      const danger = guard.refuse.find((one) => isIn(GUARDED_KINDS[one], resource));
      if (danger === undefined || isUnchanged(danger, write)) return [];
      if (danger !== 'Permissions')
        return [problem('GuardRefuses', object, `${guard.by} refuses ${danger}: ${GUARD_ADVICE}`)];
      if (guard.rightsOf !== undefined && rightsOf === undefined) {
        const message = `the guard compares it with the permissions of ${guard.rightsOf.user}: use --against to check it now`;
        return [note('GuardJudges', object, message)];
      }
      const refused = await guardProblem(write, guard, rightsOf?.(guard));
      return refused === undefined ? [] : [problem('GuardRefuses', object, refused)];
    }),
  );
  return found.flat();
}

const isIn = (kinds: readonly GroupResource[], resource: GroupResource): boolean =>
  kinds.some((kind) => groupResourceName(kind) === groupResourceName(resource));

const UNCHANGED = Object.fromEntries(
  DANGERS.map((danger) => [danger, compileCel(unchanged(danger), ['request', 'object', 'oldObject'])]),
) as Readonly<Record<Danger, ReturnType<typeof compileCel>>>;

const isUnchanged = (danger: Danger, { resource, object, oldObject }: GuardedWrite): boolean =>
  oldObject !== undefined &&
  UNCHANGED[danger].evaluate({ request: { operation: 'UPDATE', resource }, object, oldObject }) === true;
