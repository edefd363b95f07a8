import type { JsonObject } from '../../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { records, text, texts, number, spec, status, section, stringMap } from '../../fields.ts';
import type { PrinterColumn } from '../../resource-type.ts';

/** Labels as `a=1,b=2`, sorted by key; `<none>` if empty. */
export function shownLabels(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return pairs.length === 0 ? '<none>' : pairs.sort().join(',');
}

/** The columns of pkg/printers/internalversion/printers.go without Age, which comes before the last column. */
export const SERVICE_COLUMNS: readonly PrinterColumn[] = [
  {
    name: 'Type',
    type: 'string',
    description: 'How the Service is exposed.',
    value: (service) => text(spec(service), 'type'),
  },
  {
    name: 'Cluster-IP',
    type: 'string',
    description: 'Its address within the cluster.',
    value: (service) => text(spec(service), 'clusterIP') || '<none>',
  },
  {
    name: 'External-IP',
    type: 'string',
    description: 'Its addresses outside the cluster.',
    value: externalAddress,
  },
  {
    name: 'Port(s)',
    type: 'string',
    description: 'The ports that it exposes.',
    value: (service) => records(spec(service), 'ports').map(shownPort).join(',') || '<none>',
  },
  {
    name: 'Selector',
    type: 'string',
    priority: 1,
    description: 'The labels of the pods behind it.',
    value: (service) => shownLabels(stringMap(spec(service), 'selector')),
  },
];

function shownPort(port: JsonObject): string {
  const nodePort = number(port, 'nodePort') ?? 0;
  return `${number(port, 'port') ?? 0}${nodePort === 0 ? '' : `:${nodePort}`}/${text(port, 'protocol')}`;
}

function externalAddress(service: ApiObject): string {
  const external = texts(spec(service), 'externalIPs');
  switch (text(spec(service), 'type')) {
    case 'ExternalName':
      return text(spec(service), 'externalName');
    case 'LoadBalancer': {
      const ingress = records(section(status(service), 'loadBalancer'), 'ingress').map(
        (point) => text(point, 'ip') || text(point, 'hostname'),
      );
      return [...ingress, ...external].join(',') || '<pending>';
    }
    default:
      return external.join(',') || '<none>';
  }
}
