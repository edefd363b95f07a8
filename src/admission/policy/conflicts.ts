/** Finds policies that undo each other's changes, and required references in a circle. */
import { formatPath } from '../../json/field-path.ts';
import { memoizeWeak } from '../../json/json.ts';
import { someOf } from '../../json/counted.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { pathsWritten } from '../native/changes/paths.ts';
import type { CompiledMatch, CompiledPolicy } from './compiled-policy.ts';
import { covers } from './match/resource-pattern.ts';

/** At most 20, because a status has a limited size. */
export const conflictsOf = (policy: CompiledPolicy, all: readonly CompiledPolicy[]): readonly string[] =>
  [...circles(policy, all), ...sharedWrites(policy, all)].slice(0, 20);

function sharedWrites(policy: CompiledPolicy, all: readonly CompiledPolicy[]): readonly string[] {
  const own = writesOf(policy);
  const others = all.filter(({ name, match }) => name !== policy.name && sharesObjects(policy.match, match));
  return [...own.values()].flatMap(({ key, field, value }) => {
    const rivals = others.filter((other) => (writesOf(other).get(key)?.value ?? value) !== value);
    if (rivals.length === 0) return [];
    const names = someOf(rivals.map(({ name }) => name));
    return [
      `${field} is also written by AdmissionPolicy ${names}, and the names of the policies decide which value remains: write it in one policy`,
    ];
  });
}

/** A later default never replaces an earlier one, so defaults are compared only with defaults. */
const writesOf = memoizeWeak(({ defaults, mutations }: CompiledPolicy) => {
  const filled = defaults.map((one) => ({
    key: `default ${one.path.text}`,
    field: one.path.text,
    value: one.kind === 'value' ? JSON.stringify(one.value) : one.expression.program.expression,
  }));
  const changed = mutations.flatMap((mutation) => {
    const { expression } = mutation.change.program;
    // Additions to a list do not exclude each other.
    if (/\/(-|\d+)["'/]/.test(expression)) return [];
    return pathsWritten(mutation)
      .map((path) => formatPath(path.flatMap((one) => (one.kind === 'field' ? [one.name] : []))))
      .filter((field) => field !== '')
      .map((field) => ({ key: field, field, value: expression }));
  });
  return new Map([...filled, ...changed].map((one) => [one.key, one]));
});

const selectionOf = ({ matchConditions, namespaceSelector, objectSelector }: CompiledMatch): string =>
  JSON.stringify([matchConditions, namespaceSelector, objectSelector]);
const selectsAll = (match: CompiledMatch): boolean => selectionOf(match) === '[[],{},{}]';

/** Whether some objects certainly match both: different selectors may exclude each other. */
const sharesObjects = (a: CompiledMatch, b: CompiledMatch): boolean =>
  a.apiGroups.some((group) => b.apiGroups.includes(group)) &&
  a.operations.some((operation) => b.operations.includes(operation)) &&
  a.resources.some((one) => b.resources.some((other) => covers(one, other) || covers(other, one))) &&
  (selectsAll(a) || selectsAll(b) || selectionOf(a) === selectionOf(b));

/** Kinds that require each other, directly or through others. */
function circles(policy: CompiledPolicy, all: readonly CompiledPolicy[]): readonly string[] {
  const own = kindsOf(policy);
  return requiredBy(policy).flatMap(({ name, target }) => {
    const first = groupResourceName(target);
    const reached = new Set([first]);
    // The loop also visits what it adds.
    for (const kind of reached)
      for (const other of all.filter((one) => kindsOf(one).includes(kind)))
        for (const next of requiredBy(other)) reached.add(groupResourceName(next.target));
    if (own.includes(first) || !own.some((kind) => reached.has(kind))) return [];
    return [
      `reference ${name} requires ${first}, which in turn ${reached.size > 2 ? 'indirectly ' : ''}require ${own.join(', ')}, so neither can be created first: set optional: true in one reference, or initiallyDeferred`,
    ];
  });
}

const kindsOf = memoizeWeak(({ match: { apiGroups, resources } }: CompiledPolicy): readonly string[] =>
  apiGroups.flatMap((group) => resources.map((resource) => groupResourceName({ group, resource }))),
);

const requiredBy = ({ match, references, enforcement, initiallyDeferred }: CompiledPolicy) =>
  references.filter(
    ({ optional, path }) =>
      !optional &&
      enforcement === 'Deny' &&
      initiallyDeferred === undefined &&
      selectsAll(match) &&
      match.operations.includes('CREATE') &&
      path.segments.every(({ kind }) => kind === 'field'),
  );
