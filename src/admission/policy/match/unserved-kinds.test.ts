import { expect, test } from 'vitest';

import { unservedKinds } from './unserved-kinds.ts';

const SERVED: Readonly<Record<string, readonly string[]>> = {
  '': ['v1 pods', 'v1 pods/status', 'v1 pods/fancy', 'v1 services'],
  apps: ['v1 deployments'],
  'infra.example.com': [
    'v1 servers',
    'v1 servers/status',
    'v2 servers',
    'v2 racks',
    'v1 guessed',
    'v1 guessed/*',
  ],
};

const check = (
  apiGroups: readonly string[],
  resources: readonly string[],
  apiVersions: readonly string[] = ['*'],
) =>
  unservedKinds(
    { apiGroups, resources, apiVersions },
    (group) =>
      group === 'unknown.example.com'
        ? undefined
        : (SERVED[group] ?? []).map((text) => {
            const [version = '', resource = ''] = text.split(' ');
            return { version, resource };
          }),
    Object.keys(SERVED),
  );

test.each<[readonly string[], readonly string[], readonly string[]]>([
  [['infra.example.com'], ['servers', 'racks'], ['*']],
  [['infra.example.com'], ['servers/status', 'servers/*', '*/scale'], ['*']],
  [['infra.example.com'], ['guessed/anything'], ['*']],
  [['', 'apps'], ['pods', 'deployments'], ['*']],
  // Of the table, for API servers that are newer or older; and of the API server.
  [['', 'apps'], ['pods/resize', 'pods/fancy', 'deployments/scale'], ['*']],
  [['infra.example.com'], ['*'], ['*']],
  [['infra.example.com'], ['servers'], ['v2', 'v3']],
  // Refused for other reasons, or not known.
  [['*'], ['nonsense'], ['*']],
  [['infra.example.com'], ['Nonsense'], ['*']],
  [['unknown.example.com', 'apps'], ['nonsense'], ['*']],
])('%j %j %j is served, or it is not known', (groups, resources, versions) => {
  expect(check(groups, resources, versions)).toBeUndefined();
});

test.each<[readonly string[], readonly string[], readonly string[], string, boolean]>([
  [['infra.example.com'], ['server'], ['*'], 'did you mean servers.infra.example.com?', true],
  [['infra.example.com'], ['servers', 'disks'], ['*'], 'no disks.infra.example.com: install', false],
  [['infra.exmaple.com'], ['servers'], ['*'], 'did you mean servers.infra.example.com?', true],
  [['other.example.com'], ['servers'], ['*'], 'no servers.other.example.com: install', true],
  [['other.example.com', 'infra.example.com'], ['servers'], ['*'], 'no servers.other.example.com', false],
  [['other.example.com'], ['*'], ['*'], 'no resource of the group other.example.com', true],
  [[''], ['deployments'], ['*'], 'did you mean deployments.apps?', true],
  [
    ['infra.example.com'],
    ['servers'],
    ['v3'],
    'in v1, v2, and not in v3: correct spec.match.apiVersions',
    true,
  ],
  [[''], ['pods/ephemeralcontainer'], ['*'], 'no pods/ephemeralcontainer. Subresources of pods: name', true],
  [
    [''],
    ['pods', 'pods/evict'],
    ['*'],
    'Subresources of pods: name one of attach, binding, ephemeral',
    false,
  ],
  [
    ['infra.example.com'],
    ['servers', 'servers/sttus'],
    ['*'],
    'no servers/sttus. Subresources of servers: name one of status',
    false,
  ],
  [
    ['infra.example.com'],
    ['racks/scale'],
    ['*'],
    'no racks/scale. Subresources of racks: there are none, so remove it',
    true,
  ],
  [['apps'], ['*/sttus'], ['*'], 'no */sttus. Subresources of *: name one of scale, status', true],
])('%j %j %j is not served', (groups, resources, versions, message, isEverything) => {
  expect(check(groups, resources, versions)).toEqual({
    message: expect.stringContaining(message) as string,
    isEverything,
  });
});
