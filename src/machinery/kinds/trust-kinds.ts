import type { JsonObject } from '../../json/json.ts';
import type { ApiObject } from '../api-object.ts';
import { record, records, spec, status, text, withFields } from '../fields.ts';
import { pathSegmentProblem } from '../name-problems.ts';
import type { ResourceType } from '../resource-type.ts';
import { AGE, builtInKind, column } from './built-in-kind.ts';
import { BOOLEAN, BYTES, CONDITIONS, INT32, object, STRING, withDefault } from './schema-builders.ts';

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
  columns: [
    column('Service', 'Who serves it.', shownService),
    column('Available', 'Whether it is available.', shownAvailable),
    AGE,
  ],
  hasStatus: true,
  strategy: {
    prepareForCreate: (service) => withFields(service, { status: { conditions: [conditionOf(service)] } }),
    nameProblem: pathSegmentProblem,
  },
});

/** The Available condition. A real aggregator would probe the Service. */
function conditionOf(service: ApiObject): JsonObject {
  const told = record(spec(service), 'service');
  const common = { type: 'Available', lastTransitionTime: service.metadata.creationTimestamp ?? '' };
  if (told === undefined) {
    const message = 'Local APIServices are always available';
    return { ...common, status: 'True', reason: 'Local', message };
  }
  const message = `service/${text(told, 'name')} in "${text(told, 'namespace')}" is not present`;
  return { ...common, status: 'False', reason: 'ServiceNotFound', message };
}

function shownService(service: ApiObject): string {
  const told = record(spec(service), 'service');
  return told === undefined ? 'Local' : `${text(told, 'namespace')}/${text(told, 'name')}`;
}

function shownAvailable(service: ApiObject): string {
  const condition = records(status(service), 'conditions').find(
    (found) => text(found, 'type') === 'Available',
  );
  if (condition === undefined) return 'Unknown';
  const is = text(condition, 'status');
  return is === 'True' ? is : `${is} (${text(condition, 'reason')})`;
}
