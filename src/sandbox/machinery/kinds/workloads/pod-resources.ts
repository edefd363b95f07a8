import { isEqual, type JsonObject } from '../../../../json/json.ts';
import { records, section } from '../../fields.ts';

/** A limit without a request is also the request. */
export function withRequests(podSpec: JsonObject): JsonObject {
  const lists = ['containers', 'initContainers'].filter((name) =>
    records(podSpec, name).some(
      (container) => Object.keys(section(container, 'resources', 'limits')).length > 0,
    ),
  );
  if (lists.length === 0) return podSpec;
  return {
    ...podSpec,
    ...Object.fromEntries(lists.map((name) => [name, records(podSpec, name).map(requesting)])),
  };
}

function requesting(container: JsonObject): JsonObject {
  const limits = section(container, 'resources', 'limits');
  if (Object.keys(limits).length === 0) return container;
  const requests = { ...limits, ...section(container, 'resources', 'requests') };
  return { ...container, resources: { ...section(container, 'resources'), requests } };
}

const COUNTED = ['cpu', 'memory'];

/** Follows ComputePodQOS of k8s.io/kubernetes/pkg/apis/core/helper/qos. */
export function qosClassOf(podSpec: JsonObject): 'BestEffort' | 'Burstable' | 'Guaranteed' {
  const all = ['containers', 'initContainers'].flatMap((name) => records(podSpec, name));
  const counted = (container: JsonObject, field: string): JsonObject =>
    Object.fromEntries(
      Object.entries(section(container, 'resources', field)).filter(
        ([name, amount]) => COUNTED.includes(name) && amount !== '0' && amount !== 0,
      ),
    );
  const resources = all.map((one) => ({
    limits: counted(one, 'limits'),
    requests: counted(one, 'requests'),
  }));
  const isEmpty = (amounts: JsonObject) => Object.keys(amounts).length === 0;
  if (resources.every(({ limits, requests }) => isEmpty(limits) && isEmpty(requests))) return 'BestEffort';
  const isFixed = resources.every(
    ({ limits, requests }) =>
      COUNTED.every((name) => Object.hasOwn(limits, name)) && isEqual(limits, requests),
  );
  return isFixed ? 'Guaranteed' : 'Burstable';
}
