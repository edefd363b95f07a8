/**
 * Whether all changes of a policy, applied to their own result, change nothing. The webhook applies them twice to find that
 * out, and refuses the request if not. The API server just applies them twice. So it may only make changes that are repeatable
 * for every object.
 */
import type { CompiledMutation, CompiledPolicy } from '../../policy/compiled-policy.ts';
import { guardOf, isSame, type Guard } from './guards.ts';
import type { Operation, Patches } from './patches.ts';
import { fieldsPath, isInside, overlap, overlapAny, pathsWritten, valuesRead, type Path } from './paths.ts';

interface Change {
  /** For messages. */
  readonly name: string;
  readonly writes: readonly Path[];
  /** What decides about the change, apart from its guard. */
  readonly reads: readonly Path[];
  readonly guard: Guard | undefined;
}

/** Defaults alone are repeatable: they change only what is absent. @param patches of the mutations, in their order */
export function repeatProblem(policy: CompiledPolicy, patches: readonly Patches[]): string | undefined {
  const { defaults, mutations } = policy;
  if (mutations.length === 0) return undefined;
  for (const [index, mutation] of mutations.entries()) {
    const problem = selfProblem(policy, mutation, patches[index]);
    if (problem !== undefined)
      return `mutation ${mutation.name} ${problem}: only the webhook finds out whether it stays as it is`;
  }
  const changes: readonly Change[] = [
    ...defaults.map((rule): Change => {
      const reads = rule.kind === 'expression' ? valuesRead(policy, rule.expression.program) : [];
      const { segments } = rule.path;
      const isOne = segments.every(({ kind }) => kind === 'field');
      const guard = isOne ? ({ kind: 'present', path: segments } as const) : undefined;
      return { name: `the default of ${rule.path.text}`, writes: [segments], reads, guard };
    }),
    ...mutations.map((mutation, index) => changeOf(policy, mutation, patches[index])),
  ];
  for (const [index, earlier] of changes.entries()) {
    const later = changes
      .slice(index + 1)
      .find(({ writes }) => writes.some((path) => disturbs(path, earlier)));
    if (later !== undefined)
      return `${later.name} changes what ${earlier.name} reads or writes: only the webhook finds out whether the result stays as it is`;
  }
  return undefined;
}

/** Whether a later write at this path may lead to another result of the earlier change when that is repeated. */
function disturbs(path: Path, { writes, reads, guard }: Change): boolean {
  if (overlapAny([path], reads)) return true;
  if (guard === undefined) return overlapAny([path], writes);
  return overlap(path, guard.path) && !(guard.kind === 'present' && isInside(path, guard.path));
}

function changeOf(policy: CompiledPolicy, mutation: CompiledMutation, patches: Patches | undefined): Change {
  const { name, condition, change } = mutation;
  const guard = guardOf(condition?.program, patches);
  const conditions = condition === undefined ? [] : valuesRead(policy, condition.program);
  const values = valuesRead(policy, change.program);
  const reads = [...conditions, ...values].filter((path) => !isOnlyGuard(path, guard, conditions));
  return { name: `mutation ${name}`, writes: pathsWritten(mutation), reads, guard };
}

/** The guard itself, unless the condition reads its field once more. */
const isOnlyGuard = (path: Path, guard: Guard | undefined, conditions: readonly Path[]): boolean =>
  guard !== undefined &&
  isSame(path, guard.path) &&
  conditions.filter((one) => isSame(one, guard.path)).length === 1;

/** Why the mutation alone may not be repeatable; undefined: it is. */
function selfProblem(
  policy: CompiledPolicy,
  mutation: CompiledMutation,
  patches: Patches | undefined,
): string | undefined {
  const { condition, change } = mutation;
  if (guardOf(condition?.program, patches) !== undefined) return undefined;
  if (overlapAny(valuesRead(policy, change.program), pathsWritten(mutation))) return 'reads what it writes';
  const operations = patches === undefined ? [] : operationsIn(patches);
  if (operations.some(({ op }) => op === 'remove'))
    return 'removes a field without the condition that it exists';
  if (operations.some(({ keys }) => /^(-|\d+)$/.test(keys.at(-1) ?? ''))) return 'may add an item to a list';
  const isUndone = operations.some((first, index) =>
    operations.slice(index + 1).some(({ keys }) => isInside(fieldsPath(first.keys), fieldsPath(keys))),
  );
  return isUndone ? 'writes a field and then its parent' : undefined;
}

function operationsIn(patches: Patches): readonly Operation[] {
  switch (patches.kind) {
    case 'merge':
      return [];
    case 'operations':
      return patches.operations;
    case 'joined':
      return patches.parts.flatMap(operationsIn);
    case 'choice':
      return [patches.whenTrue, patches.whenFalse].flatMap(operationsIn);
  }
}
