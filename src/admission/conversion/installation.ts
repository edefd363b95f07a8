/** Whether a CustomResourceDefinition uses Gatehouse for conversion, and otherwise what to write into it. */
import { groupResourceName } from '../../json/kube-object.ts';
import { quote } from '../../json/printable.ts';
import type { WebhookTarget } from '../webhooks/webhook.ts';
import type { Definition } from './definition.ts';

export type OwnService = WebhookTarget['service'];

export interface Installation {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: 'Installed' | 'NotInstalled' | 'AskedByURL' | 'NoDefinition';
  readonly message: string;
}

export function installationOf(definition: Definition | undefined, own: OwnService): Installation {
  if (definition === undefined) {
    const message = 'CustomResourceDefinition not found';
    return { status: 'False', reason: 'NoDefinition', message };
  }
  const { url } = definition.conversion;
  const problem = stanzaProblem(definition, own);
  if (problem !== undefined) {
    const message = `${problem}\n${whatToWrite(definition, own)}`;
    return { status: 'False', reason: 'NotInstalled', message };
  }
  if (url === undefined)
    return { status: 'True', reason: 'Installed', message: 'the API server calls Gatehouse' };
  const message = `the API server calls ${quote(url)}; this controller cannot check whether that is Gatehouse`;
  return { status: 'Unknown', reason: 'AskedByURL', message };
}

function stanzaProblem(definition: Definition, own: OwnService): string | undefined {
  const { strategy, service, url, reviewVersions, hasCaBundle } = definition.conversion;
  if (strategy !== 'Webhook')
    return `spec.conversion.strategy is ${quote(strategy)}, so the API server does not call converters.`;
  // The API server uses the first version that it knows, and also knows v1beta1.
  if (reviewVersions.find((version) => version === 'v1' || version === 'v1beta1') !== 'v1')
    return 'spec.conversion.webhook.conversionReviewVersions must begin with v1, the only version that Gatehouse supports.';
  if (url !== undefined) return undefined;
  const isOurs =
    service?.namespace === own.namespace && service.name === own.name && service.port === own.port;
  if (!isOurs) return 'spec.conversion.webhook.clientConfig leads to another Service.';
  const path = `/convert/${groupResourceName(definition)}`;
  if (![path, path.slice(1), '/convert', 'convert'].includes(service.path))
    return `spec.conversion.webhook.clientConfig.service.path is ${quote(service.path)}.`;
  return hasCaBundle ? undefined : 'spec.conversion.webhook.clientConfig lacks a caBundle.';
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
