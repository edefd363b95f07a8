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
import { type Guard, guardProblem } from '../../../restore/guard.ts';
import { type Finding, note, problem } from './findings.ts';
import type { RehearsalInput } from './input.ts';
import type { StoredWrite } from './replay.ts';

export async function guardFindings(
  guards: readonly Guard[],
  writes: readonly StoredWrite[],
  rightsOf: RehearsalInput['rightsOf'],
): Promise<readonly Finding[]> {
  const found = await Promise.all(
    guards.flatMap((guard) => writes.map((write) => findingOf(guard, write, rightsOf))),
  );
  return found.filter((one) => one !== undefined);
}

async function findingOf(
  guard: Guard,
  write: StoredWrite,
  rightsOf: RehearsalInput['rightsOf'],
): Promise<Finding | undefined> {
  const { resource, namespace, name } = write;
  const { refuse, rightsOf: subject, by } = guard;
  const object = `${groupResourceName(resource)} ${objectKey({ namespace, name })}`;
  if (refuse.includes('AdmissionObjects') && isIn(UNGUARDED_KINDS, resource))
    return problem('NotGuarded', object, `the API server lets no guard judge it: ${GUARD_ADVICE}`);
  const danger = refuse.find((one) => isIn(GUARDED_KINDS[one], resource));
  if (danger === undefined || isUnchanged(danger, write)) return undefined;
  if (danger !== 'Permissions')
    return problem('GuardRefuses', object, `${by} refuses ${danger}: ${GUARD_ADVICE}`);
  if (subject !== undefined && rightsOf === undefined) {
    const message = `the guard compares it with the permissions of ${subject.user}: use --against to check it now`;
    return note('GuardJudges', object, message);
  }
  const refused = await guardProblem(write, guard, rightsOf?.(guard));
  return refused === undefined ? undefined : problem('GuardRefuses', object, refused);
}

const isIn = (kinds: typeof UNGUARDED_KINDS, { group, resource }: GroupResource): boolean =>
  kinds.group === group && kinds.resources.includes(resource);

const UNCHANGED = Object.fromEntries(
  DANGERS.map((danger) => [danger, compileCel(unchanged(danger), ['request', 'object', 'oldObject'])]),
) as Readonly<Record<Danger, ReturnType<typeof compileCel>>>;

const isUnchanged = (danger: Danger, { resource, object, oldObject }: StoredWrite): boolean =>
  oldObject !== undefined &&
  UNCHANGED[danger].evaluate({ request: { operation: 'UPDATE', resource }, object, oldObject }) === true;
