/** Policies, requests and a small cluster for the admission tests. */
import type { AdmissionPolicySpec } from '../../../src/api/admission-policy.ts';
import {
  groupResourceName,
  objectKey,
  type KubeObject,
  type ObjectRef,
} from '../../../src/json/kube-object.ts';
import {
  compilePolicy,
  type CompiledPolicy,
  type CompileEnvironment,
  type CompileResult,
} from '../../../src/admission/policy/compile.ts';
import type { JsonObject } from '../../../src/json/json.ts';
import type { AdmissionRequest } from '../../../src/admission/review/request.ts';
import { createClaimsInMemory } from './claims.ts';
import type {
  AdmissionContext,
  RequestWorld,
  RestoreEvidence,
  RestoringWindow,
} from '../../../src/admission/policy/world.ts';

export const GROUP = 'infra.example.com';
export const DATACENTER = {
  name: 'datacenter',
  path: 'spec.datacenter',
  target: { apiGroup: GROUP, resource: 'datacenters' },
};
const NAMESPACED = ['classes', 'configmaps'];
export const KINDS: Readonly<Record<string, string>> = {
  datacenters: 'Datacenter',
  classes: 'Class',
  configmaps: 'ConfigMap',
  namespaces: 'Namespace',
};

export const restoringIn = (...changes: readonly Partial<RestoringWindow>[]): RestoreEvidence => ({
  windows: changes.map((change) => ({
    window: 'nightly',
    operations: ['CREATE', 'UPDATE'],
    enforced: [],
    links: true,
    clusterWide: true,
    ...change,
  })),
});

export const NIGHTLY = restoringIn({});

export function compileSpec(
  spec: Partial<AdmissionPolicySpec>,
  name = 'servers',
  environment: Partial<CompileEnvironment> = {},
): CompileResult {
  return compilePolicy(
    {
      metadata: { name },
      spec: { match: { apiGroups: [GROUP], resources: ['servers'] }, ...spec },
    },
    {
      ownNamespace: 'gatehouse-system',
      ...environment,
      resolve: ({ resource }) => ({
        kind: KINDS[resource] ?? 'Server',
        version: 'v1',
        namespaced: !(resource in KINDS) || NAMESPACED.includes(resource),
      }),
    },
  );
}

export function policyOf(spec: Partial<AdmissionPolicySpec>, name?: string): CompiledPolicy {
  const result = compileSpec(spec, name);
  if (result.kind === 'rejected') throw new Error(JSON.stringify(result.problems));
  return result.policy;
}

export function createRequest(spec: JsonObject, metadata: JsonObject = {}): AdmissionRequest {
  const kind = { group: GROUP, version: 'v1', kind: 'Server' };
  const resource = { group: GROUP, version: 'v1', resource: 'servers' };
  return {
    uid: 'u',
    kind,
    resource,
    subResource: '',
    requestKind: kind,
    requestResource: resource,
    name: 'a',
    namespace: 'store',
    operation: 'CREATE',
    userInfo: { username: 'ada', uid: '', groups: ['authors'], extra: {} },
    object: {
      apiVersion: `${GROUP}/v1`,
      kind: 'Server',
      metadata: { name: 'a', namespace: 'store', ...metadata },
      spec,
    },
    oldObject: undefined,
    dryRun: false,
    options: undefined,
  };
}

export function updateRequest(
  before: JsonObject,
  after: JsonObject,
  metadata: JsonObject = {},
): AdmissionRequest {
  return { ...createRequest(after, metadata), operation: 'UPDATE', oldObject: createRequest(before).object };
}

export function deleteRequest(spec: JsonObject): AdmissionRequest {
  const { object, ...rest } = createRequest(spec);
  return { ...rest, operation: 'DELETE', object: undefined, oldObject: object };
}

interface Cluster {
  /** Contents of the stores, by `resource.group/namespace/name` (the format of `keyOf`). */
  readonly stored?: Readonly<Record<string, KubeObject>>;
  /** Live answers of the API server; a string is an error message. Default: `stored`. */
  readonly live?: Readonly<Record<string, KubeObject | string>>;
}

const keyOf = (ref: ObjectRef) => `${groupResourceName(ref)}/${objectKey(ref)}`;

export const emptyWorld = (): RequestWorld => ({
  find: () => undefined,
  confirm: () => Promise.resolve(undefined),
  read: () => Promise.resolve(undefined),
  claims: createClaimsInMemory(),
  governed: { referrers: () => [], holders: () => [] },
  mayRestore: () => false,
  knownRestore: () => undefined,
  restoreEvidence: () => Promise.resolve(undefined),
});

export function clusterOf({ stored = {}, live = stored }: Cluster = {}): AdmissionContext & {
  readonly reads: string[];
} {
  const reads: string[] = [];
  const read = (ref: ObjectRef): Promise<KubeObject | undefined> => {
    reads.push(keyOf(ref));
    const answer = live[keyOf(ref)];
    return typeof answer === 'string' ? Promise.reject(new Error(answer)) : Promise.resolve(answer);
  };
  return {
    reads,
    world: { ...emptyWorld(), find: (ref) => stored[keyOf(ref)], confirm: read, read },
    signal: new AbortController().signal,
    now: Date.parse('2026-11-21T12:00:00Z'),
  };
}
