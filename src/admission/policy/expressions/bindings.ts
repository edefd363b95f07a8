import { groupResourceName, type KubeObject, type ObjectRef } from '../../../json/kube-object.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { NAMESPACES } from '../compile-targets.ts';
import type { Inputs, Reads } from './expression.ts';
import { readReferences, type FoundReference } from '../references/read-references.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { quote } from '../../../json/printable.ts';
import type { World } from '../world.ts';

/** What expressions see of the cluster. */
export type ClusterInputs = Pick<Inputs, 'namespaceObject' | 'params' | 'refs'>;

export interface Surroundings {
  readonly inputs: ClusterInputs;
  /** What is named and certainly not there. */
  readonly missing: { readonly refs: boolean; readonly params: ObjectRef | undefined };
  /** Whether a store was believed, which may be behind. */
  readonly fromCache: boolean;
}

export const NO_SURROUNDINGS: Surroundings = {
  inputs: {},
  missing: { refs: false, params: undefined },
  fromCache: false,
};

export type ClusterReads = Pick<Reads, 'namespaceObject' | 'params' | 'refs'>;

export const readsCluster = ({ namespaceObject, params, refs }: ClusterReads): boolean =>
  namespaceObject || params || refs;

/**
 * Gathers what expressions read of the cluster.
 *
 * @param from `store`: a live read only of what the stores do not hold; `api`: all of it live
 * @throws what the live read throws: then nobody can tell
 */
export async function gather(
  policy: Pick<CompiledPolicy, 'params' | 'references'>,
  reads: ClusterReads,
  request: AdmissionRequest,
  world: Pick<World, 'find' | 'read'>,
  from: 'store' | 'api',
  signal: AbortSignal,
): Promise<Surroundings> {
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

/** Undefined where the namespace would be that of an object without one. */
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

/** `refs`: the target by the name of its reference; a list where the path goes over a list. */
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

/** e.g. `datacenters.infra.example.com "fra1" in namespace "store"` */
export function describeRef(ref: ObjectRef): string {
  const where = ref.namespace === undefined ? '' : ` in namespace ${quote(ref.namespace)}`;
  return `${groupResourceName(ref)} ${quote(ref.name)}${where}`;
}
