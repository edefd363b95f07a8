import { field, withMeta, type ApiObject } from '../../api-object.ts';
import { flag, spec, status, text, texts, withFields } from '../../fields.ts';
import { labelProblem, pathSegmentProblem } from '../../name-problems.ts';
import type { ResourceType, Strategy } from '../../resource-type.ts';
import { AGE, builtInKind, column } from '../built-in-kind.ts';
import {
  BOOLEAN,
  BYTES,
  CONDITIONS,
  INT32,
  listOf,
  object,
  openObject,
  STRING,
  STRINGS,
  withDefault,
} from '../schema-builders.ts';

/** Every Namespace has a label with its own name, so that selectors can match it. */
const NAME_LABEL = 'kubernetes.io/metadata.name';
/** Keeps a Namespace until its content is deleted. */
const NAMESPACE_FINALIZER = 'kubernetes';

/** Follows pkg/registry/core/namespace/strategy.go. */
const namespaceStrategy: Partial<Strategy> = {
  completeDefaults: withNameLabel,
  prepareForCreate: (namespace) => {
    const finalizers = texts(spec(namespace), 'finalizers');
    return withFields(withNameLabel(namespace), {
      spec: {
        finalizers: finalizers.includes(NAMESPACE_FINALIZER)
          ? finalizers
          : [...finalizers, NAMESPACE_FINALIZER],
      },
      status: { phase: 'Active' },
    });
  },
  // Only the `finalize` subresource changes finalizers.
  prepareForUpdate: (namespace, old) => withFields(withNameLabel(namespace), { spec: field(old, 'spec') }),
  nameProblem: labelProblem,
};

function withNameLabel(namespace: ApiObject): ApiObject {
  const { name = '', labels } = namespace.metadata;
  if (name === '' || labels?.[NAME_LABEL] === name) return namespace;
  return withMeta(namespace, { labels: { ...labels, [NAME_LABEL]: name } });
}

const phaseOf = (namespace: ApiObject) => text(status(namespace), 'phase');

export const NAMESPACE: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'Namespace',
  resource: 'namespaces',
  shortNames: ['ns'],
  description: 'A room for names: objects in different namespaces may be called the same.',
  fields: {
    spec: object({ finalizers: STRINGS }),
    status: object({ phase: STRING, conditions: CONDITIONS }),
  },
  columns: [column('Status', 'The status of the namespace', phaseOf), AGE],
  hasStatus: true,
  verbs: ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'],
  selectableFields: { 'status.phase': phaseOf },
  strategy: namespaceStrategy,
});

/** v1 Node: stored, and never ready. */
export const NODE: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'Node',
  resource: 'nodes',
  shortNames: ['no'],
  description: 'A machine that runs pods.',
  fields: {
    spec: object({
      podCIDR: STRING,
      podCIDRs: STRINGS,
      providerID: STRING,
      unschedulable: BOOLEAN,
      taints: listOf(openObject({ key: STRING, value: STRING, effect: STRING })),
    }),
    status: openObject({ conditions: CONDITIONS }),
  },
  hasStatus: true,
  selectableFields: { 'spec.unschedulable': (node) => String(flag(spec(node), 'unschedulable')) },
});

// Kinds with CA certificates. The sandbox only stores them: it does not check certificates or proxy to extension API servers.

const signerOf = (bundle: ApiObject): string => text(spec(bundle), 'signerName');

export const CLUSTER_TRUST_BUNDLE: ResourceType = builtInKind({
  apiVersion: 'certificates.k8s.io/v1',
  kind: 'ClusterTrustBundle',
  resource: 'clustertrustbundles',
  description: 'Root certificates that pods can mount.',
  fields: { spec: withDefault(object({ signerName: STRING, trustBundle: STRING }), {}) },
  columns: [column('SignerName', 'Whose roots they are.', signerOf)],
  selectableFields: { 'spec.signerName': signerOf },
  strategy: { nameProblem: pathSegmentProblem },
});

export const API_SERVICE: ResourceType = builtInKind({
  apiVersion: 'apiregistration.k8s.io/v1',
  kind: 'APIService',
  resource: 'apiservices',
  categories: ['api-extensions'],
  description: 'Who serves one version of an API group.',
  fields: {
    spec: withDefault(
      object({
        service: object({ namespace: STRING, name: STRING, port: withDefault(INT32, 443) }),
        group: STRING,
        version: STRING,
        insecureSkipTLSVerify: BOOLEAN,
        caBundle: BYTES,
        groupPriorityMinimum: INT32,
        versionPriority: INT32,
      }),
      {},
    ),
    status: object({ conditions: CONDITIONS }),
  },
  hasStatus: true,
  strategy: { nameProblem: pathSegmentProblem },
});
