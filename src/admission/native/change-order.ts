/**
 * Whether the order of changes matters. The webhook has an order: policies by their names, and in each of them the defaults before
 * the mutations. The API server applies its own policies before all webhooks, and in no stable order. So it may change only
 * what no other change reads or writes.
 */
import { compileMatchCondition } from '../../cel/match-condition.ts';
import type { CelProgram } from '../../cel/cel.ts';
import type { FieldPath, Segment } from '../../json/field-path.ts';
import type { NormalSelector } from '../../json/label-selector.ts';
import { memoizeWeak } from '../../json/objects.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { splitResource } from '../policy/match/resource-pattern.ts';

/** Names of fields at the top of an object. */
type Fields = ReadonlySet<string> | 'all';

interface Footprint {
  readonly writes: readonly FieldPath[];
  /** What its values depend on. */
  readonly reads: Fields;
  /** What its scope depends on. */
  readonly scope: Fields;
}

/** Why the API server may not apply the defaults of the policy; undefined: nothing depends on their order. */
export function orderProblem(policy: CompiledPolicy, others: readonly CompiledPolicy[]): string | undefined {
  if (policy.mutations.length > 0)
    return 'its mutations come after them, in an order that only the webhook keeps';
  const own = footprintOf(policy);
  if (touches(own.writes, own.scope)) return 'they may change whether the policy governs the object';
  for (const other of others) {
    if (other.name === policy.name || !sharesKinds(policy, other)) continue;
    if (other.mutations.length > 0 || other.undecidable !== undefined)
      return `AdmissionPolicy ${other.name} may change the same objects, in an order that only the webhook keeps`;
    const theirs = footprintOf(other);
    const depends =
      own.writes.some((path) => theirs.writes.some((one) => overlap(path.segments, one.segments))) ||
      [theirs.reads, theirs.scope].some((fields) => touches(own.writes, fields)) ||
      [own.reads, own.scope].some((fields) => touches(theirs.writes, fields));
    if (depends)
      return `AdmissionPolicy ${other.name} reads or fills the same fields, in an order that only the webhook keeps`;
  }
  return undefined;
}

/** Whether the policy may change objects. */
export const changesObjects = ({ defaults, mutations, references, undecidable }: CompiledPolicy): boolean =>
  defaults.length > 0 ||
  mutations.length > 0 ||
  undecidable !== undefined ||
  references.some(({ uidPath }) => uidPath !== undefined);

const footprintOf = memoizeWeak((policy: CompiledPolicy): Footprint => {
  const { defaults, references, variables, match } = policy;
  const computed = defaults.flatMap((one) => (one.kind === 'expression' ? [one.expression] : []));
  const programs =
    computed.length === 0 ? [] : [...computed, ...variables.map(({ expression }) => expression)];
  const conditions = match.matchConditions.map(({ expression }) => compileMatchCondition(expression));
  return {
    writes: [...defaults.map(({ path }) => path), ...references.flatMap(({ uidPath }) => uidPath ?? [])],
    reads: union(programs.map(({ program }) => fieldsOf(program))),
    scope: union([...conditions.map(fieldsOf), readsLabels(match) ? new Set(['metadata']) : new Set()]),
  };
});

function readsLabels({ objectSelector, namespaceSelector, resources }: CompiledPolicy['match']): boolean {
  const isOfNamespaces = resources.some((one) => ['namespaces', '*'].includes(splitResource(one).resource));
  return isLimited(objectSelector) || (isOfNamespaces && isLimited(namespaceSelector));
}

const isLimited = ({ matchLabels = {}, matchExpressions = [] }: NormalSelector): boolean =>
  Object.keys(matchLabels).length + matchExpressions.length > 0;

const fieldsOf = ({ reads }: CelProgram): Fields => reads.get('object') ?? new Set();

const union = (all: readonly Fields[]): Fields =>
  all.reduce<Fields>(
    (some, more) => (some === 'all' || more === 'all' ? 'all' : new Set([...some, ...more])),
    new Set(),
  );

const touches = (paths: readonly FieldPath[], fields: Fields): boolean =>
  paths.some(
    ({ segments: [first] }) => first?.kind === 'field' && (fields === 'all' || fields.has(first.name)),
  );

/** Whether one path may lead to the value of the other, or into it. */
const overlap = (a: readonly Segment[], b: readonly Segment[]): boolean =>
  a.slice(0, b.length).every((segment, depth) => mayBeEqual(segment, b[depth] ?? segment));

function mayBeEqual(a: Segment, b: Segment): boolean {
  if (a.kind === 'field' || b.kind === 'field')
    return a.kind === 'field' && b.kind === 'field' && a.name === b.name;
  return a.kind === 'each' || b.kind === 'each' || a.index === b.index;
}

/** Groups do not count: one object may have several, such as an Event. */
function sharesKinds({ match: a }: CompiledPolicy, { match: b }: CompiledPolicy): boolean {
  const [ours, theirs] = [a, b].map(({ resources }) => resources.map((one) => splitResource(one).resource));
  return (ours ?? []).some((one) =>
    (theirs ?? []).some((other) => one === other || one === '*' || other === '*'),
  );
}
