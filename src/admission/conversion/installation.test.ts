import { expect, test } from 'vitest';

import { definitionOf } from '../../../test/support/admission/conversion.ts';
import { installationOf } from './installation.ts';

const OWN = { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 };
const SERVICE = {
  namespace: 'gatehouse-system',
  name: 'gatehouse',
  path: '/convert/servers.infra.example.com',
};

const installed = (webhook: object, strategy = 'Webhook', clientConfig: object = {}) =>
  installationOf(
    definitionOf([{ name: 'v1' }], {
      conversion: {
        strategy,
        webhook: {
          conversionReviewVersions: ['v1'],
          clientConfig: { caBundle: 'Cg==', service: SERVICE, ...clientConfig },
          ...webhook,
        },
      },
    }),
    OWN,
  );

test.each([
  ['at the path of the kind', {}],
  ['at the common path', { service: { ...SERVICE, path: '/convert' } }],
  ['at the default port', { service: { ...SERVICE, port: 443 } }],
])('a definition that names Gatehouse %s counts as installed', (_what, clientConfig) => {
  expect(installed({}, 'Webhook', clientConfig)).toMatchObject({ status: 'True', reason: 'Installed' });
});

test.each<[string, ReturnType<typeof installed>, string]>([
  ['has strategy None', installed({}, 'None'), 'spec.conversion.strategy is "None"'],
  [
    'asks another Service',
    installed({}, 'Webhook', { service: { ...SERVICE, name: 'other' } }),
    'leads to another Service',
  ],
  [
    'asks for another kind',
    installed({}, 'Webhook', { service: { ...SERVICE, path: '/convert/x.y' } }),
    'service.path is "/convert/x.y"',
  ],
  ['lacks the bundle', installed({}, 'Webhook', { caBundle: undefined }), 'lacks a caBundle'],
  ['speaks another version', installed({ conversionReviewVersions: ['v9'] }), 'must begin with v1'],
])(
  'a definition that %s does not count as installed, and the message says what to write',
  (_what, installation, message) => {
    expect(installation).toMatchObject({ status: 'False', reason: 'NotInstalled' });
    expect(installation.message).toContain(message);
    expect(installation.message).toContain('gatehouse.dev/inject-cabundle: "true"');
    expect(installation.message).toContain('path: /convert/servers.infra.example.com');
  },
);

test('a definition with a URL gives no verdict', () => {
  const byUrl = installed({}, 'Webhook', { service: undefined, url: 'https://localhost:1/convert' });
  expect(byUrl).toMatchObject({ status: 'Unknown', reason: 'AskedByURL' });
  expect(installationOf(undefined, OWN)).toMatchObject({ status: 'False', reason: 'NoDefinition' });
});
