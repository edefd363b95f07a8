import type { JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { label1035Problem, subdomainProblem } from '../../dns-names.ts';
import { flag, record, records, text, number, spec, status, withFields } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import type { ResourceType } from '../../resource-type.ts';
import { invalidValue, requiredValue } from '../../schema/causes.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { pathSegmentProblem } from '../name-problems.ts';
import { BOOLEAN, BYTES, CONDITIONS, INT32, object, STRING, withDefault } from '../schema-builders.ts';

/** apiregistration.k8s.io/v1 APIService: stored; the sandbox does not proxy to extension API servers. */
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
    { name: 'Service', type: 'string', description: 'Who serves it.', value: shownService },
    { name: 'Available', type: 'string', description: 'Whether it is available.', value: shownAvailable },
    AGE,
  ],
  hasStatus: true,
  strategy: {
    prepareForCreate: (service) => withFields(service, { status: { conditions: [conditionOf(service)] } }),
    validate: apiServiceProblems,
    nameProblem: pathSegmentProblem,
  },
});

/** The Available condition. A real aggregator would probe the Service; the sandbox does not proxy. */
function conditionOf(service: ApiObject): JsonObject {
  const at = service.metadata.creationTimestamp ?? '';
  const told = record(spec(service), 'service');
  return told === undefined
    ? {
        type: 'Available',
        status: 'True',
        lastTransitionTime: at,
        reason: 'Local',
        message: 'Local APIServices are always available',
      }
    : {
        type: 'Available',
        status: 'False',
        lastTransitionTime: at,
        reason: 'ServiceNotFound',
        message: `service/${text(told, 'name')} in "${text(told, 'namespace')}" is not present`,
      };
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

/** Follows ValidateAPIService of kube-aggregator, in the same order and words. */
function apiServiceProblems(service: ApiObject): readonly Cause[] {
  const given = spec(service);
  const { name = '' } = service.metadata;
  const [group, version] = [text(given, 'group'), text(given, 'version')];
  const groupProblem = group === '' ? undefined : subdomainProblem(group);
  const versionProblem = label1035Problem(version);
  const needed = `${version}.${group}`;
  return [
    ...(name === needed
      ? []
      : [
          invalidValue(
            'metadata.name',
            name,
            `must be \`spec.version+"."+spec.group\`: ${JSON.stringify(needed)}`,
          ),
        ]),
    ...(groupProblem === undefined ? [] : [invalidValue('spec.group', group, groupProblem)]),
    ...(group === '' && version !== 'v1'
      ? [requiredValue('spec.group', 'only v1 may have an empty group and it better be legacy kube')]
      : []),
    ...(versionProblem === undefined ? [] : [invalidValue('spec.version', version, versionProblem)]),
    ...priorityProblems(given, 'groupPriorityMinimum', 20_000),
    ...priorityProblems(given, 'versionPriority', 1_000),
    ...trustProblems(given),
  ];
}

function priorityProblems(given: JsonObject, name: string, most: number): readonly Cause[] {
  const priority = number(given, name) ?? 0;
  return priority > 0 && priority <= most
    ? []
    : [invalidValue(`spec.${name}`, priority, `must be positive and less than ${most}`)];
}

function trustProblems(given: JsonObject): readonly Cause[] {
  const service = record(given, 'service');
  const bundle = Buffer.from(text(given, 'caBundle'), 'base64').length;
  const unverified = flag(given, 'insecureSkipTLSVerify');
  if (service === undefined) {
    return [
      ...(bundle > 0
        ? [invalidValue('spec.caBundle', `${bundle} bytes`, 'local APIServices may not have a caBundle')]
        : []),
      ...(unverified
        ? [
            invalidValue(
              'spec.insecureSkipTLSVerify',
              true,
              'local APIServices may not have insecureSkipTLSVerify',
            ),
          ]
        : []),
    ];
  }
  return [
    ...['namespace', 'name']
      .filter((name) => text(service, name) === '')
      .map((name) => requiredValue(`spec.service.${name}`)),
    ...(unverified && bundle > 0
      ? [invalidValue('spec.insecureSkipTLSVerify', true, 'may not be true if caBundle is present')]
      : []),
  ];
}
