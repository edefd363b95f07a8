/** Whether a CustomResourceDefinition uses Gatehouse for conversion, and otherwise what to write into it. */
import { groupResourceName } from '../../json/kube-object.ts';
import { quote } from '../../json/printable.ts';
import type { Definition } from './definition.ts';

export interface OwnService {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
}

export interface Installation {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: 'Installed' | 'NotInstalled' | 'AskedByURL' | 'NoDefinition';
  readonly message: string;
}

export function installationOf(definition: Definition | undefined, own: OwnService): Installation {
  if (definition === undefined) {
    const message = 'there is no CustomResourceDefinition to convert for';
    return { status: 'False', reason: 'NoDefinition', message };
  }
  const { url } = definition.conversion;
  const problem = stanzaProblem(definition, own);
  if (problem !== undefined) {
    const message = `${problem}\n${whatToWrite(definition, own)}`;
    return { status: 'False', reason: 'NotInstalled', message };
  }
  if (url === undefined)
    return { status: 'True', reason: 'Installed', message: 'the API server asks Gatehouse' };
  const message = `the API server asks ${quote(url)}: whether that is Gatehouse cannot be told from here`;
  return { status: 'Unknown', reason: 'AskedByURL', message };
}

function stanzaProblem(definition: Definition, own: OwnService): string | undefined {
  const { strategy, service, url, reviewVersions, hasCaBundle } = definition.conversion;
  if (strategy !== 'Webhook')
    return `spec.conversion.strategy is ${quote(strategy)}, so the API server calls no converter.`;
  // The API server uses the first version that it knows, and also knows v1beta1.
  if (reviewVersions.find((version) => version === 'v1' || version === 'v1beta1') !== 'v1')
    return 'spec.conversion.webhook.conversionReviewVersions does not begin with v1, the only version that Gatehouse answers.';
  if (url !== undefined) return undefined;
  const isOurs =
    service?.namespace === own.namespace && service.name === own.name && service.port === own.port;
  if (!isOurs) return 'spec.conversion.webhook.clientConfig leads to another Service.';
  const path = `/convert/${groupResourceName(definition)}`;
  if (![path, path.slice(1), '/convert', 'convert'].includes(service.path))
    return `spec.conversion.webhook.clientConfig.service.path is ${quote(service.path)}.`;
  return hasCaBundle ? undefined : 'spec.conversion.webhook.clientConfig has no caBundle (yet).';
}

function whatToWrite(definition: Definition, { namespace, name, port }: OwnService): string {
  return [
    `Write into the CustomResourceDefinition ${groupResourceName(definition)}:`,
    'metadata:',
    '  annotations:',
    '    gatehouse.dev/inject-cabundle: "true"',
    'spec:',
    '  conversion:',
    '    strategy: Webhook',
    '    webhook:',
    '      conversionReviewVersions: [v1]',
    '      clientConfig:',
    '        service:',
    `          namespace: ${namespace}`,
    `          name: ${name}`,
    `          port: ${port}`,
    `          path: /convert/${groupResourceName(definition)}`,
  ].join('\n');
}
