import type { ApiObject } from '../../api-object.ts';
import { has, records, section, spec, status, text } from '../../fields.ts';
import type { ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { atomic, INT32, listOf, object, STRING, STRINGS } from '../schema-builders.ts';

const BACKEND = object({
  service: object({ name: STRING, port: atomic(object({ name: STRING, number: INT32 })) }),
  resource: atomic(object({ apiGroup: STRING, kind: STRING, name: STRING })),
});
const PATHS = listOf(object({ path: STRING, pathType: STRING, backend: BACKEND }));
const PORTS = listOf(object({ port: INT32, protocol: STRING, error: STRING }));

/** networking.k8s.io/v1 Ingress: stored; no controller routes traffic. */
export const INGRESS: ResourceType = builtInKind({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'Ingress',
  resource: 'ingresses',
  namespaced: true,
  shortNames: ['ing'],
  description: 'Which requests from outside reach which Services.',
  fields: {
    spec: object({
      ingressClassName: STRING,
      defaultBackend: BACKEND,
      tls: listOf(object({ hosts: STRINGS, secretName: STRING })),
      rules: listOf(object({ host: STRING, http: object({ paths: PATHS }) })),
    }),
    status: object({
      loadBalancer: object({ ingress: listOf(object({ ip: STRING, hostname: STRING, ports: PORTS })) }),
    }),
  },
  hasStatus: true,
  columns: [
    {
      name: 'Class',
      type: 'string',
      description: 'Which controller it is for.',
      value: (ingress) => text(spec(ingress), 'ingressClassName') || '<none>',
    },
    { name: 'Hosts', type: 'string', description: 'The hosts of its rules.', value: shownHosts },
    {
      name: 'Address',
      type: 'string',
      description: 'Where requests arrive.',
      value: (ingress) =>
        records(section(status(ingress), 'loadBalancer'), 'ingress')
          .map((one) => text(one, 'ip') || text(one, 'hostname'))
          .join(','),
    },
    {
      name: 'Ports',
      type: 'string',
      description: 'On which ports.',
      value: (ingress) => (has(spec(ingress), 'tls') ? '80, 443' : '80'),
    },
    AGE,
  ],
  strategy: { countsGenerations: true },
});

const MOST_HOSTS = 3;

function shownHosts(ingress: ApiObject): string {
  const hosts = records(spec(ingress), 'rules').flatMap((rule) => text(rule, 'host') || []);
  const shown = hosts.slice(0, MOST_HOSTS).join(',');
  if (hosts.length === 0) return '*';
  return hosts.length > MOST_HOSTS ? `${shown} + ${hosts.length - MOST_HOSTS} more...` : shown;
}
