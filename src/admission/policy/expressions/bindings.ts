import {
  groupResourceName,
  isDnsLabel,
  isObjectName,
  type KubeObject,
  type ObjectRef,
} from '../../../json/kube-object.ts';
import type { Report } from '../problem.ts';
import { clusterScoped, type Resolve, tryResolve } from '../match/compile-match.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { toGroupResource } from '../../../api/policy-match.ts';
import type { CompiledMatch, CompiledParams, CompiledPolicy } from '../compiled-policy.ts';
import { namespaceRefOf } from '../object-ref.ts';
import {
  allReads,
  type CompiledExpression,
  createEvaluate,
  type Evaluate,
  type Inputs,
  type Reads,
  UnknownTarget,
} from './expression.ts';
import { type FoundReference, readReferences } from '../references/read-references.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { quote } from '../../../json/printable.ts';
import type { ObjectReads } from '../world.ts';
import { memoizeWeak } from '../../../json/json.ts';
import type { CelBudget } from '../../../cel/values/values.ts';

export interface Bindings {
  readonly inputs: Pick<Inputs, 'namespaceObject' | 'params' | 'refs' | 'authorize'>;
  readonly missing: { readonly refs: readonly FoundReference[]; readonly params: ObjectRef | undefined };
  /** Whether a value came from a store, which may be stale. */
  readonly fromCache: boolean;
}

export const NO_BINDINGS: Bindings = {
  inputs: {},
  missing: { refs: [], params: undefined },
  fromCache: false,
};

/**
 * @param from `store`: read live only what the stores lack; `api`: read everything live
 * @throws if a live read fails
 */
export async function gather(
  policy: Pick<CompiledPolicy, 'params' | 'references'>,
  reads: ClusterReads,
  request: AdmissionRequest,
  world: Pick<ObjectReads, 'find' | 'read'>,
  from: 'store' | 'api',
  signal: AbortSignal,
): Promise<Bindings> {
  let fromCache = false;
  const look = async (ref: ObjectRef): Promise<KubeObject | undefined> => {
    const known = from === 'store' ? world.find(ref) : undefined;
    if (known === undefined) return await world.read(ref, signal);
    fromCache = true;
    return known;
  };
  const { namespace, object, oldObject } = request;
  const namespaceRef =
    reads.namespaceObject && namespace !== undefined ? namespaceRefOf(namespace) : undefined;
  const paramsRef = reads.params ? paramsOf(policy, request) : undefined;
  const used = policy.references.filter(({ name }) => reads.refs.has(name));
  const holder = used.length > 0 ? (object ?? oldObject) : undefined;
  const references =
    holder === undefined ? [] : readReferences({ references: used }, holder, namespace).found;
  const [namespaceObject, params, ...targets] = await Promise.all([
    namespaceRef && look(namespaceRef),
    paramsRef && look(paramsRef),
    ...references.map(({ target }) => look(target)),
  ]);
  return {
    inputs: { namespaceObject, params, refs: bound(references, targets) },
    missing: {
      refs: references.filter((_reference, index) => targets[index] === undefined),
      params: params === undefined ? paramsRef : undefined,
    },
    fromCache,
  };
}

/** Undefined if the params need a namespace and the object is cluster-scoped. */
function paramsOf(
  { params }: Pick<CompiledPolicy, 'params'>,
  request: AdmissionRequest,
): ObjectRef | undefined {
  if (params === undefined) return undefined;
  const { target, name, namespaced } = params;
  const namespace = namespaced ? (params.namespace ?? request.namespace) : undefined;
  return namespaced && namespace === undefined ? undefined : { ...target, name, namespace };
}

/** `refs`: each target by the name of its reference; a list if the path contains `[*]`. */
function bound(
  references: readonly FoundReference[],
  targets: readonly (KubeObject | undefined)[],
): Readonly<Record<string, object | readonly object[]>> {
  const refs = new Map<string, object | object[]>();
  for (const [index, { reference }] of references.entries()) {
    const target = targets[index];
    if (target === undefined) continue;
    const isList = reference.path.segments.some(({ kind }) => kind === 'each');
    const before = refs.get(reference.name);
    if (Array.isArray(before)) before.push(target);
    else refs.set(reference.name, isList ? [target] : target);
  }
  return Object.fromEntries(refs);
}

export function compileParams(
  { params }: AdmissionPolicySpec,
  match: CompiledMatch,
  resolve: Resolve,
  report: Report,
): CompiledParams | undefined {
  if (params === undefined) return undefined;
  const { name, namespace, whenMissing = 'Deny' } = params;
  const target = toGroupResource(params);
  const at = 'spec.params.namespace';
  if (!isObjectName(target, name))
    report('spec.params.name', `${quote(name)} cannot be the name of an object`);
  if (namespace !== undefined && !isDnsLabel(namespace))
    report(at, `${quote(namespace)} cannot be the name of a namespace`);
  const resolved = tryResolve(target, 'spec.params', resolve, report);
  if (resolved === undefined) return undefined;
  const { kind, version, namespaced } = resolved;
  if (!namespaced && namespace !== undefined) report(at, 'the kind is cluster-scoped: remove it');
  const unnamespaced = namespaced && namespace === undefined ? clusterScoped(match, resolve) : undefined;
  if (unnamespaced !== undefined)
    report(
      at,
      `is missing: ${groupResourceName(unnamespaced)} is cluster-scoped; write the namespace of the object`,
    );
  return { target, kind, version, name, namespace, namespaced, whenMissing };
}

type ClusterReads = Pick<Reads, 'authorizer' | 'namespaceObject' | 'params' | 'refs'>;

type Expressions = Pick<CompiledPolicy, 'defaults' | 'mutations' | 'rules' | 'warnings' | 'auditAnnotations'>;

export const readsCluster = ({ authorizer, namespaceObject, params, refs }: ClusterReads): boolean =>
  authorizer || namespaceObject || params || refs.size > 0;

export const changesRead = memoised(({ defaults, mutations }) => [
  ...defaults.map((rule) => (rule.kind === 'expression' ? rule.expression : undefined)),
  ...mutations.flatMap(({ condition, change }) => [condition, change]),
]);

export const checksRead = memoised(({ rules, warnings, auditAnnotations }) => [
  ...rules.flatMap(({ expression, messageExpression }) => [expression, messageExpression]),
  ...warnings.flatMap(({ condition, messageExpression }) => [condition, messageExpression]),
  ...auditAnnotations.map(({ value }) => value),
]);

function memoised(expressionsOf: (policy: Expressions) => readonly (CompiledExpression | undefined)[]) {
  return memoizeWeak((policy: Expressions): ClusterReads =>
    allReads(expressionsOf(policy).flatMap((one) => one?.reads ?? [])),
  );
}

export interface Evaluation {
  readonly request: AdmissionRequest;
  readonly evaluate: Evaluate;
  /** The missing targets that the expression reads, if its result could differ once they exist. */
  readonly awaits: (expression: CompiledExpression) => readonly FoundReference[];
}

export function createEvaluation(
  { variables }: Pick<CompiledPolicy, 'variables'>,
  request: AdmissionRequest,
  { inputs: fromCluster, missing }: Bindings,
  budget: CelBudget,
): Evaluation {
  const { object, oldObject } = request;
  const inputs = { ...fromCluster, request, object, oldObject };
  let unknown: Evaluate | undefined;
  const isUnknown = (expression: CompiledExpression): boolean => {
    const unknownRefs = new Set(missing.refs.map(({ reference }) => reference.name));
    unknown ??= createEvaluate(variables, { ...inputs, unknownRefs }, budget);
    try {
      unknown(expression);
      return false;
    } catch (error) {
      return error instanceof UnknownTarget;
    }
  };
  return {
    request,
    evaluate: createEvaluate(variables, inputs, budget),
    awaits: (expression) => {
      const targets = missing.refs.filter(({ reference }) => expression.reads.refs.has(reference.name));
      return targets.length > 0 && isUnknown(expression) ? targets : [];
    },
  };
}
