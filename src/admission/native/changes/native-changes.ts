import type { CompiledPolicy, CompiledDefault, CompiledMutation } from '../../policy/compiled-policy.ts';
import { splitResource } from '../../policy/match/resource-pattern.ts';
import { mayOpen } from '../../../api/immutable-fields.ts';
import { updateLimits } from '../../policy/mutations/update-limits.ts';
import { IGNORED_CONDITIONS, inWebhook, type NativeCheck } from '../native-check.ts';
import { paramsProblem, readsOwnNamespace } from '../native-params.ts';
import { isOfCustomKinds, unknownFieldProblem } from './built-in-fields.ts';
import { orderProblem } from './change-order.ts';
import { repeatProblem } from './repeatable.ts';
import { compileCel, type CelProgram } from '../../../cel/cel.ts';
import { governedResources } from '../../policy/match/compile-match.ts';
import { listsOf } from '../../policy/mutations/list-types.ts';
import type { GroupResource } from '../../../json/kube-object.ts';
import type { ListTypes } from '../../../json/merge-patch.ts';
import {
  keysWritten,
  overlapAny,
  parentsNeeded,
  pathsWritten,
  valuesRead,
  fieldsPath,
  type Path,
} from './paths.ts';
import type { Segment } from '../../../json/field-path.ts';
import { isJsonArray, isJsonObject, type JsonValue } from '../../../json/json.ts';
import { expressionProblem, numberProblem } from '../native-rules.ts';
import { exactTypeOf, variablesFor } from '../variable-types.ts';
import { below, memberOf, patch, ROOT, patchesOf, patchesText, type Place, type Patches } from './patches.ts';
import { MUTATION_MESSAGES } from '../../../cel/compile/compiler.ts';
import type { CompiledExpression } from '../../policy/expressions/expression.ts';
import { mapText, NeedsWebhook, readerOf, typeOf } from './written-value.ts';

type Change = CompiledPolicy['defaults'][number] | CompiledPolicy['mutations'][number];

function readsParams(change: Change): boolean {
  if ('change' in change) return change.change.reads.params || change.condition?.reads.params === true;
  return change.kind === 'expression' && change.expression.reads.params;
}

export const changesReadParams = ({ defaults, mutations }: CompiledPolicy): boolean =>
  [...defaults, ...mutations].some(readsParams);

function paramsProblemOf(policy: CompiledPolicy): string | undefined {
  if (!changesReadParams(policy)) return undefined;
  if (readsOwnNamespace(policy))
    return 'its params are in the namespace of each object, and no probe can show that the API server reads them';
  return [...policy.defaults, ...policy.mutations].every(readsParams)
    ? paramsProblem(policy)
    : 'only some of its changes read params: the API server would skip all of them while the params are missing';
}

/** Either the API server or the webhook makes all changes of a policy, because each change sees the results of earlier changes. */
export function changeChecks(
  policy: CompiledPolicy,
  others: readonly CompiledPolicy[],
): readonly NativeCheck[] {
  const { defaults, mutations, restore } = policy;
  if (defaults.length + mutations.length === 0) return [];
  const compiled = mutations.map((mutation) => ({
    mutation,
    native: compileNativeMutation(policy, mutation),
  }));
  const patches = compiled.flatMap(({ native }) => (native.kind === 'compiled' ? [native] : []));
  const ofDefaults = defaults
    .map((one) => defaultProblem(policy, one))
    .find((problem) => problem !== undefined);
  const parts = [
    ...(defaults.length === 0
      ? []
      : [
          { check: 'defaults', own: ofDefaults, texts: defaults.map((rule) => defaultPatches(policy, rule)) },
        ]),
    ...compiled.map(({ mutation, native }) => ({
      check: `mutation ${mutation.name}`,
      own: restore.skipsMutations ? SKIPPED : native.kind === 'webhook' ? native.reason : undefined,
      texts: native.kind === 'compiled' ? [native.text] : [],
    })),
  ];
  const first = parts.find(({ own }) => own !== undefined);
  const ofAll =
    first === undefined
      ? (scopeProblem(policy) ??
        paramsProblemOf(policy) ??
        orderProblem(policy, others) ??
        droppedProblem(policy) ??
        unknownFieldProblem(policy) ??
        limitProblem(policy) ??
        listProblem(policy) ??
        repeatProblem(
          policy,
          patches.map((one) => one.patches),
        ))
      : `${first.check} needs the webhook, and all changes of a policy are made in one place, in order`;
  return parts.map(({ check, own, texts }) => {
    const reason = own ?? ofAll;
    if (reason !== undefined) return inWebhook(check, reason);
    return { check, by: 'APIServer', part: 'changes', validations: [], mutations: texts };
  });
}

const SKIPPED = 'a restore may skip it: set restore.mutations to Apply, if it may change restored objects';

function scopeProblem(policy: CompiledPolicy): string | undefined {
  const { resources, matchConditions, failurePolicy } = policy.match;
  if (matchConditions.length > 0 && failurePolicy === 'Ignore') return IGNORED_CONDITIONS;
  if (!resources.every((one) => ['', 'status'].includes(splitResource(one).subResource)))
    return 'it selects a subresource other than status, whose objects can be of another kind';
  return undefined;
}

interface Step {
  readonly name: string;
  readonly writes: readonly Path[];
  readonly needs: readonly Path[];
}

/**
 * Why the webhook makes all changes: a change reads what an earlier one writes. Between two changes, the API server converts an
 * object of a built-in kind to its Go type and back, which drops empty fields and may rewrite others, such as quantities.
 */
function droppedProblem(policy: CompiledPolicy): string | undefined {
  const { defaults, mutations, match } = policy;
  if (match.apiGroups.every(isOfCustomKinds)) return undefined;
  const read = (program: CelProgram | undefined) =>
    program === undefined ? [] : valuesRead(policy, program);
  const steps: readonly Step[] = [
    ...defaults.map((rule) => ({
      name: `the default of ${rule.path.text}`,
      writes: isKept(rule) ? [] : [rule.path.segments],
      needs: rule.kind === 'expression' ? read(rule.expression.program) : [],
    })),
    ...mutations.map((mutation) => ({
      name: `mutation ${mutation.name}`,
      writes: pathsWritten(mutation),
      needs: [
        ...read(mutation.condition?.program),
        ...read(mutation.change.program),
        ...parentsNeeded(mutation),
      ],
    })),
  ];
  for (const [index, { name, writes }] of steps.entries()) {
    const later = steps.slice(index + 1).find(({ needs }) => overlapAny(needs, writes));
    if (later !== undefined)
      return `${later.name} needs what ${name} writes, and the API server drops empty fields of built-in kinds in between: make one change of both`;
  }
  return undefined;
}

/** Whether the value is true or a string that is not a number, quantity or time. */
const isKept = (rule: CompiledDefault): boolean =>
  rule.kind === 'value' &&
  (rule.value === true || (typeof rule.value === 'string' && /^[a-z]/i.test(rule.value)));

function defaultProblem(policy: CompiledPolicy, rule: CompiledDefault): string | undefined {
  if (rule.kind === 'value') return undefined;
  const { expression, path } = rule;
  // Other types can become different JSON: large integers, timestamps, and null, which fills nothing.
  if (!['string', 'bool'].includes(exactTypeOf(policy, expression.program)))
    return `the default of ${path.text} may be neither a string nor a Boolean; write string(…) or bool(…)`;
  return numberProblem(policy, [expression], TEXTS) ?? expressionProblem(policy, [expression], true);
}

/** A text of a whole number differs only from 1,000,000, as 1e+06. */
export const TEXTS = ['string', 'format'];

/** Like `fill` in ../../../json/field-path.ts, never changes what is present. */
const defaultPatches = (policy: CompiledPolicy, rule: CompiledDefault): string =>
  unlessLimited(policy, rule, patches(ROOT, rule.path.segments, valueOf(rule)));

/** Like the webhook, without the changes that the API server would refuse on UPDATE. */
function unlessLimited(policy: CompiledPolicy, change: Change, text: string): string {
  const kinds = updateLimits(policy, change).map(({ of: { group, resource, ifMarked } }) => {
    const isKind = `request.resource.group == "${group}" && request.resource.resource == "${resource}"`;
    return ifMarked ? `${isKind} && has(oldObject.immutable) && oldObject.immutable == true` : isKind;
  });
  return kinds.length === 0
    ? text
    : `(request.operation == "UPDATE" && (${kinds.join(' || ')}) ? [] : ${text})`;
}

function limitProblem(policy: CompiledPolicy): string | undefined {
  const limits = [...policy.defaults, ...policy.mutations].flatMap((change) => updateLimits(policy, change));
  return limits.some(({ of, writes }) => writes !== 'whole' || mayOpen(of))
    ? 'it may change immutable fields on UPDATE, and only the webhook leaves out such changes'
    : undefined;
}

function listProblem(policy: CompiledPolicy): string | undefined {
  const merged = policy.mutations.filter(({ type }) => type === 'Merge').flatMap(keysWritten);
  const isList = (path: readonly string[], kind: GroupResource) =>
    path.reduce<ListTypes | undefined>((at, name) => at?.below.get(name), listsOf(policy, kind))?.keys !==
    undefined;
  const kinds = governedResources(policy.match);
  const path = merged.find((one) => kinds.some((kind) => isList(one, kind)));
  return path && `only the webhook merges the items of the list ${path.join('.')}`;
}

const valueOf = (rule: CompiledDefault): string =>
  rule.kind === 'value' ? literal(rule.value) : `(${rule.expression.program.expression}\n)`;

function literal(value: JsonValue): string {
  if (isJsonArray(value)) return `[${value.map((item) => `dyn(${literal(item)})`).join(', ')}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  return mapText(Object.entries(value).map(([key, item]) => [key, literal(item)]));
}

function patches(place: Place, segments: readonly Segment[], value: string): string {
  const [segment, ...rest] = segments;
  switch (segment?.kind) {
    case undefined:
      return '[]';
    case 'field':
      return inMap(place, segment.name, rest, value);
    case 'index': {
      const item = below(place, `[${segment.index}]`, JSON.stringify(`/${segment.index}`));
      const exists = `type(${place.value}) == list && ${place.value}.size() > ${segment.index}`;
      return `(${exists} ? ${patches(item, rest, value)} : [])`;
    }
    case 'each': {
      const index = `gatehouse_${segments.length}`;
      const item = below(place, `[${index}]`, `"/" + string(${index})`);
      const all = `lists.range(${place.value}.size()).map(${index}, ${patches(item, rest, value)}).flatten()`;
      return `(type(${place.value}) == list ? ${all} : [])`;
    }
  }
}

function inMap(place: Place, name: string, rest: readonly Segment[], value: string): string {
  const key = JSON.stringify(name);
  const child = memberOf(place, name);
  const added = nested(rest, value);
  const filled = added === undefined ? '[]' : `[${patch('add', child, added)}]`;
  return `(type(${place.value}) != map ? [] : !(${key} in ${place.value}) ? ${filled} : ${patches(child, rest, value)})`;
}

/** The value with its parents; undefined if a parent is an element of a list, because defaults create no elements. */
function nested(segments: readonly Segment[], value: string): string | undefined {
  return segments.reduceRight<string | undefined>(
    (inner, segment) =>
      segment.kind === 'field' && inner !== undefined
        ? `{${JSON.stringify(segment.name)}: dyn(${inner})}`
        : undefined,
    value,
  );
}

type NativeMutation =
  | { readonly kind: 'compiled'; readonly patches: Patches; readonly text: string }
  | { readonly kind: 'webhook'; readonly reason: string };

function compileNativeMutation(policy: CompiledPolicy, mutation: CompiledMutation): NativeMutation {
  const { condition, change } = mutation;
  try {
    const reader = readerOf(policy, change.program.expression);
    const patches = patchesOf(mutation, reader);
    const list = patchesText(patches, reader.textOf, filledBy(policy));
    const parts = [...reader.used].map((text): CompiledExpression => ({
      ...change,
      program: compileCel(text, DYNAMIC),
    }));
    const all = condition === undefined ? parts : [condition, ...parts];
    const problem =
      identityProblem(mutation) ??
      fieldsProblem(policy, patches) ??
      numberProblem(policy, all, TEXTS) ??
      expressionProblem(policy, all, true);
    if (problem !== undefined) throw new NeedsWebhook(problem);
    const conditional = condition === undefined ? list : `${isTrue(condition)} ? ${list} : []`;
    const text = unlessLimited(policy, mutation, conditional);
    checkResult(policy, text);
    return { kind: 'compiled', patches, text };
  } catch (error) {
    if (!(error instanceof NeedsWebhook)) throw error;
    return { kind: 'webhook', reason: error.message };
  }
}

/** Defaults do not fill the items of new lists. */
const filledBy = ({ defaults }: CompiledPolicy): readonly (readonly string[])[] =>
  defaults.flatMap(({ path: { segments } }) => {
    const names = segments.flatMap((segment) => (segment.kind === 'field' ? [segment.name] : []));
    return names.length === segments.length ? [names] : [];
  });

const DYNAMIC = ['object', 'oldObject', 'request', 'namespaceObject', 'variables', 'params'];

const isTrue = ({ program }: CompiledExpression): string =>
  program.type === 'bool' ? `(${program.expression}\n)` : `((${program.expression}\n) ? true : false)`;

/** The webhook refuses these changes, and the API server only some of them. */
const IDENTITY = [
  ...[['apiVersion'], ['kind']],
  ...['name', 'namespace', 'uid'].map((field) => ['metadata', field]),
].map(fieldsPath);

const identityProblem = (mutation: CompiledMutation): string | undefined =>
  overlapAny(pathsWritten(mutation), IDENTITY)
    ? 'it may change the identity of the object, which only the webhook refuses'
    : undefined;

/** Nothing has compared the fields of a sum of lists with the schema. */
function fieldsProblem({ match }: CompiledPolicy, patches: Patches): string | undefined {
  if (match.apiGroups.every(isOfCustomKinds) || !isSum(patches)) return undefined;
  return 'its expression adds lists; write one list, because the API server refuses unknown fields of built-in kinds';
}

const isSum = (patches: Patches): boolean =>
  patches.kind === 'joined' ||
  (patches.kind === 'choice' && [patches.whenTrue, patches.whenFalse].some(isSum));

/** The API server limits the length of an expression, and of its parts. */
const LONGEST = 50_000;

function checkResult(policy: CompiledPolicy, text: string): void {
  if (text.length > LONGEST) throw new NeedsWebhook('its expression would be too long');
  const type = typeOf(text, variablesFor(policy), { messages: MUTATION_MESSAGES });
  if (type !== 'list(JSONPatch)') throw new NeedsWebhook('its expression changes nothing');
}
