import { isObjectName, isDnsLabel } from '../../../json/names.ts';
import type { Problem } from '../problem.ts';
import { type Resolve, clusterScoped } from '../match/compile-match.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import {
  groupResourceName,
  type KubeObject,
  type ObjectRef,
  type GroupResource,
} from '../../../json/kube-object.ts';
import type { CompiledPolicy, CompiledMatch, CompiledParams } from '../compiled-policy.ts';
import { NAMESPACES } from '../object-ref.ts';
import type { Inputs, Reads } from './expression.ts';
import { readReferences, type FoundReference } from '../references/read-references.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { quote } from '../../../json/printable.ts';
import type { World } from '../world.ts';

/** The variables of expressions that come from the cluster. */
export type ClusterInputs = Pick<Inputs, 'namespaceObject' | 'params' | 'refs'>;

export interface Bindings {
  readonly inputs: ClusterInputs;
  /** What a live read found missing. */
  readonly missing: { readonly refs: boolean; readonly params: ObjectRef | undefined };
  /** Whether a value came from a store, which may be stale. */
  readonly fromCache: boolean;
}

export const NO_BINDINGS: Bindings = {
  inputs: {},
  missing: { refs: false, params: undefined },
  fromCache: false,
};

export type ClusterReads = Pick<Reads, 'namespaceObject' | 'params' | 'refs'>;

export const readsCluster = ({ namespaceObject, params, refs }: ClusterReads): boolean =>
  namespaceObject || params || refs;

/**
 * Reads the cluster objects that the expressions use.
 *
 * @param from `store`: read live only what the stores lack; `api`: read everything live
 * @throws if a live read fails
 */
export async function gather(
  policy: Pick<CompiledPolicy, 'params' | 'references'>,
  reads: ClusterReads,
  request: AdmissionRequest,
  world: Pick<World, 'find' | 'read'>,
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
  const namespaceRef = reads.namespaceObject ? namespaceOf(request) : undefined;
  const paramsRef = reads.params ? paramsOf(policy, request) : undefined;
  const references = reads.refs ? referencesOf(policy, request) : [];
  const [namespaceObject, params, ...targets] = await Promise.all([
    namespaceRef === undefined ? undefined : look(namespaceRef),
    paramsRef === undefined ? undefined : look(paramsRef),
    ...references.map(({ target }) => look(target)),
  ]);
  return {
    inputs: { namespaceObject, params, ...(reads.refs ? { refs: bound(references, targets) } : {}) },
    missing: {
      refs: targets.includes(undefined),
      params: paramsRef !== undefined && params === undefined ? paramsRef : undefined,
    },
    fromCache,
  };
}

function namespaceOf({ namespace }: AdmissionRequest): ObjectRef | undefined {
  return namespace === undefined ? undefined : { ...NAMESPACES, namespace: undefined, name: namespace };
}

/** Undefined if the params need the namespace of the object and the object has none. */
function paramsOf(
  { params }: Pick<CompiledPolicy, 'params'>,
  request: AdmissionRequest,
): ObjectRef | undefined {
  if (params === undefined) return undefined;
  const { target, name, namespaced } = params;
  const namespace = namespaced ? (params.namespace ?? request.namespace) : undefined;
  return namespaced && namespace === undefined ? undefined : { ...target, name, namespace };
}

function referencesOf(
  policy: Pick<CompiledPolicy, 'references'>,
  { object, oldObject, namespace }: AdmissionRequest,
): readonly FoundReference[] {
  const holder = object ?? oldObject;
  return holder === undefined ? [] : readReferences(policy, holder, namespace).found;
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

/** Compiles the object that expressions see as `params`, and reports its problems. */
export function compileParams(
  { params }: AdmissionPolicySpec,
  match: CompiledMatch,
  resolve: Resolve,
  problems: Problem[],
): CompiledParams | undefined {
  if (params === undefined) return undefined;
  const { name, namespace, whenMissing = 'Deny' } = params;
  const target: GroupResource = { group: params.apiGroup ?? '', resource: params.resource };
  const report = (field: string, message: string) => {
    problems.push({ reason: 'InvalidPolicy', where: `spec.params${field}`, message });
  };
  if (!isObjectName(target, name)) report('.name', `${quote(name)} cannot be the name of an object`);
  if (namespace !== undefined && !isDnsLabel(namespace))
    report('.namespace', `${quote(namespace)} cannot be the name of a namespace`);
  const resolved = resolve(target);
  if (resolved === undefined) {
    const message = `the API server serves no ${groupResourceName(target)}: install its CustomResourceDefinition, or correct the name`;
    problems.push({ reason: 'UnknownTarget', where: 'spec.params', message });
    return undefined;
  }
  const { namespaced } = resolved;
  if (!namespaced && namespace !== undefined) report('.namespace', 'the kind is cluster-scoped: remove it');
  const homeless = namespaced && namespace === undefined ? clusterScoped(match, resolve) : undefined;
  if (homeless !== undefined)
    report(
      '.namespace',
      `is missing: ${groupResourceName(homeless)} has no namespace in which the object could be`,
    );
  return { target, name, namespace, namespaced, whenMissing };
}
