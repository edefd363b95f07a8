import { isIP } from 'node:net';
import { isEqual, type JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import {
  duplicateValue,
  forbiddenValue,
  invalidValue,
  requiredValue,
  unsupportedValue,
} from '../../schema/causes.ts';
import { subdomainProblem } from '../../dns-names.ts';
import { records, text, texts, items, number, section, spec, stringMap } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { labelProblems } from '../label-problems.ts';
import { isPort, labelProblem, PORT_RANGE, portNameProblems } from '../name-problems.ts';

// The rules of ValidateService in pkg/apis/core/validation/validation.go, in the same order and words.

const TYPES = ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'];
const PROTOCOLS = ['SCTP', 'TCP', 'UDP'];
const POLICIES = ['Cluster', 'Local'];
const A_DAY = 86_400;

export function serviceProblems(service: ApiObject): readonly Cause[] {
  const given = spec(service);
  const type = text(given, 'type');
  const headless = text(given, 'clusterIP') === 'None';
  const ports = records(given, 'ports');
  return [
    ...(ports.length === 0 && !headless && type !== 'ExternalName' ? [requiredValue('spec.ports')] : []),
    ...typeProblems(given, type, headless),
    ...ports.flatMap((port, index) => portProblems(port, `spec.ports[${index}]`, type, ports.length > 1)),
    ...duplicateNames(ports),
    ...duplicatePorts(ports),
    ...labelProblems(stringMap(given, 'selector'), 'spec.selector'),
    ...affinityProblems(given),
    ...clusterIpProblems(given, type),
    ...addressProblems(given),
    ...(TYPES.includes(type) ? [] : [unsupportedValue('spec.type', type, TYPES)]),
    ...trafficProblems(given, type),
  ];
}

function typeProblems(given: JsonObject, type: string, headless: boolean): readonly Cause[] {
  switch (type) {
    case 'LoadBalancer':
      return headless
        ? [invalidValue('spec.clusterIPs[0]', 'None', "may not be set to 'None' for LoadBalancer services")]
        : [];
    case 'NodePort':
      return headless
        ? [invalidValue('spec.clusterIPs[0]', 'None', "may not be set to 'None' for NodePort services")]
        : [];
    case 'ExternalName':
      return externalNameProblems(given);
    default:
      return [];
  }
}

function externalNameProblems(given: JsonObject): readonly Cause[] {
  const forbidden = ['clusterIPs', 'ipFamilies', 'ipFamilyPolicy'].filter(
    (name) => items(given, name).length > 0 || text(given, name) !== '',
  );
  const name = text(given, 'externalName').replace(/\.$/, '');
  const problem = name === '' ? undefined : subdomainProblem(name);
  return [
    ...forbidden.map((field) => forbiddenValue(`spec.${field}`, 'may not be set for ExternalName services')),
    ...(name === '' ? [requiredValue('spec.externalName')] : []),
    ...(problem === undefined ? [] : [invalidValue('spec.externalName', name, problem)]),
  ];
}

function portProblems(port: JsonObject, field: string, type: string, nameNeeded: boolean): readonly Cause[] {
  const name = text(port, 'name');
  const nameProblem = name === '' ? undefined : labelProblem(name);
  const number_ = number(port, 'port') ?? 0;
  const protocol = text(port, 'protocol');
  const nodePort = number(port, 'nodePort') ?? 0;
  return [
    ...(name === '' && nameNeeded ? [requiredValue(`${field}.name`)] : []),
    ...(nameProblem === undefined ? [] : [invalidValue(`${field}.name`, name, nameProblem)]),
    ...(isPort(number_) ? [] : [invalidValue(`${field}.port`, number_, PORT_RANGE)]),
    ...protocolProblems(protocol, `${field}.protocol`),
    ...targetProblems(port, `${field}.targetPort`),
    ...(nodePort !== 0 && (type === 'ClusterIP' || type === 'ExternalName')
      ? [forbiddenValue(`${field}.nodePort`, `may not be used when \`type\` is '${type}'`)]
      : []),
  ];
}

const protocolProblems = (protocol: string, field: string): readonly Cause[] => {
  if (protocol === '') return [requiredValue(field)];
  return PROTOCOLS.includes(protocol) ? [] : [unsupportedValue(field, protocol, PROTOCOLS)];
};

function targetProblems(port: JsonObject, field: string): readonly Cause[] {
  const { targetPort } = port;
  if (typeof targetPort === 'number')
    return isPort(targetPort) ? [] : [invalidValue(field, targetPort, PORT_RANGE)];
  if (typeof targetPort !== 'string') return [];
  return portNameProblems(targetPort).map((problem) => invalidValue(field, targetPort, problem));
}

function duplicateNames(ports: readonly JsonObject[]): readonly Cause[] {
  const names = ports.map((port) => text(port, 'name'));
  return names.flatMap((name, index) =>
    name !== '' && names.indexOf(name) < index ? [duplicateValue(`spec.ports[${index}].name`, name)] : [],
  );
}

/**
 * Two ports are duplicates if number and protocol match. The message prints the API server's own struct, in its field
 * order.
 */
function duplicatePorts(ports: readonly JsonObject[]): readonly Cause[] {
  const keys = ports.map((port) => `${text(port, 'protocol')}/${number(port, 'port') ?? 0}`);
  return ports.flatMap((port, index) => {
    if (keys.indexOf(keys[index] ?? '') === index) return [];
    const shown = JSON.stringify({
      Name: '',
      Protocol: text(port, 'protocol'),
      AppProtocol: null,
      Port: number(port, 'port') ?? 0,
      TargetPort: 0,
      NodePort: 0,
    });
    return [
      { reason: 'FieldValueDuplicate', message: `Duplicate value: ${shown}`, field: `spec.ports[${index}]` },
    ];
  });
}

function affinityProblems(given: JsonObject): readonly Cause[] {
  const affinity = text(given, 'sessionAffinity');
  if (affinity === '') return [requiredValue('spec.sessionAffinity')];
  if (affinity !== 'ClientIP' && affinity !== 'None') {
    return [unsupportedValue('spec.sessionAffinity', affinity, ['ClientIP', 'None'])];
  }
  if (affinity === 'None') return [];
  const seconds = number(section(given, 'sessionAffinityConfig', 'clientIP'), 'timeoutSeconds') ?? 0;
  return seconds > 0 && seconds <= A_DAY
    ? []
    : [
        invalidValue(
          'spec.sessionAffinityConfig.clientIP.timeoutSeconds',
          seconds,
          `must be greater than 0 and less than ${A_DAY}`,
        ),
      ];
}

const IP_PROBLEM = 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)';

function clusterIpProblems(given: JsonObject, type: string): readonly Cause[] {
  if (type === 'ExternalName') return [];
  const first = text(given, 'clusterIP');
  const all = texts(given, 'clusterIPs');
  const headless = first === 'None' && all.length === 1;
  return [
    ...(first !== '' && all.length > 0 && first !== all[0]
      ? [invalidValue('spec.clusterIPs', all, 'first value must match `clusterIP`')]
      : []),
    ...(headless
      ? []
      : all.flatMap((address, index) =>
          isIP(address) === 0 ? [invalidValue(`spec.clusterIPs[${index}]`, address, IP_PROBLEM)] : [],
        )),
  ];
}

const addressProblems = (given: JsonObject): readonly Cause[] =>
  texts(given, 'externalIPs').flatMap((address, index) =>
    isIP(address) === 0 ? [invalidValue(`spec.externalIPs[${index}]`, address, IP_PROBLEM)] : [],
  );

function trafficProblems(given: JsonObject, type: string): readonly Cause[] {
  const external = text(given, 'externalTrafficPolicy');
  const internal = text(given, 'internalTrafficPolicy');
  const exposed = type === 'NodePort' || type === 'LoadBalancer' || texts(given, 'externalIPs').length > 0;
  return [
    ...(external !== '' && !exposed
      ? [
          invalidValue(
            'spec.externalTrafficPolicy',
            external,
            'may only be set for externally-accessible services',
          ),
        ]
      : []),
    ...(external !== '' && exposed && !POLICIES.includes(external)
      ? [unsupportedValue('spec.externalTrafficPolicy', external, POLICIES)]
      : []),
    ...(internal !== '' && !POLICIES.includes(internal)
      ? [unsupportedValue('spec.internalTrafficPolicy', internal, POLICIES)]
      : []),
  ];
}

/**
 * Follows ValidateServiceUpdate: the cluster IP is immutable, also when the Service changes between types that have
 * one.
 */
export function serviceUpdateProblems(service: ApiObject, old: ApiObject): readonly Cause[] {
  const [wanted, before] = [spec(service), spec(old)];
  if (text(wanted, 'type') === 'ExternalName' || text(before, 'type') === 'ExternalName') return [];
  const [now, was] = [texts(wanted, 'clusterIPs'), texts(before, 'clusterIPs')];
  if (isEqual(now, was) || was.length === 0) return [];
  if (now.length === 0) {
    return [invalidValue('spec.clusterIPs[0]', now, 'primary clusterIP can not be unset')];
  }
  return now.flatMap((address, index) =>
    index < was.length && address !== was[index]
      ? [invalidValue(`spec.clusterIPs[${index}]`, now, 'may not change once set')]
      : [],
  );
}
