import { expect, test } from 'vitest';

import { resolveConfigOf, settingsOf } from './config.ts';
import { environmentName } from './environment.ts';
import { SETTINGS, type SettingName } from './settings.ts';

interface Service {
  readonly name: string;
  readonly ip: string;
  readonly ports: readonly { readonly name: string; readonly port: number; readonly protocol: string }[];
}

const upper = (name: string) => name.toUpperCase().replaceAll('-', '_');

/** FromServices of Kubernetes 1.37. @see https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/kubelet/envvars/envvars.go */
function serviceLinks({ name, ip, ports }: Service): Readonly<Record<string, string>> {
  const prefix = upper(name);
  const urlOf = ({ port, protocol }: Service['ports'][number]) =>
    `${protocol.toLowerCase()}://${ip.includes(':') ? `[${ip}]` : ip}:${port}`;
  const [first] = ports;
  const links: Record<string, string> = {
    [`${prefix}_SERVICE_HOST`]: ip,
    [`${prefix}_SERVICE_PORT`]: String(first?.port),
    [`${prefix}_PORT`]: first === undefined ? '' : urlOf(first),
  };
  for (const one of ports) {
    const variable = `${prefix}_PORT_${one.port}_${one.protocol}`;
    links[`${prefix}_SERVICE_PORT_${upper(one.name)}`] = String(one.port);
    links[variable] = urlOf(one);
    links[`${variable}_PROTO`] = one.protocol.toLowerCase();
    links[`${variable}_PORT`] = String(one.port);
    links[`${variable}_ADDR`] = ip;
  }
  return links;
}

const NAMES = Object.keys(SETTINGS) as readonly SettingName[];
const words = (setting: string) => ['gatehouse', ...setting.split('-')];
/** Every start of a variable can be the name of a Service, and every end the name of a port. */
const starts = (setting: string) => words(setting).map((_, i, all) => all.slice(0, i + 1).join('-'));
const ends = (setting: string) => words(setting).map((_, i, all) => all.slice(i).join('-'));

/** They include numbers that differ from the defaults. */
const ADDRESSES = [
  { ip: '10.96.0.9', protocol: 'TCP', first: 443 },
  { ip: 'fd00::9', protocol: 'UDP', first: 30_001 },
  { ip: '10.96.0.10', protocol: 'SCTP', first: 31_001 },
];

test.each(['webhook', 'controllers', 'serve', 'manifests'] as const)(
  'no Service has links that change a setting of gatehouse %s or end it',
  (command) => {
    const alone = resolveConfigOf(command, {}, {});
    for (const setting of NAMES)
      for (const name of starts(setting))
        for (const { ip, protocol, first } of ADDRESSES) {
          const ports = ends(setting).map((end, index) => ({ name: end, port: first + index, protocol }));
          expect(resolveConfigOf(command, {}, serviceLinks({ name, ip, ports })), name).toEqual(alone);
        }
  },
);

const LINKS = serviceLinks({
  name: 'gatehouse',
  ip: '10.96.0.9',
  ports: [{ name: 'webhooks', port: 443, protocol: 'TCP' }],
});

test('the log says which variables are ignored, where they come from, and how to avoid them', () => {
  const ignored: string[] = [];
  resolveConfigOf('serve', {}, LINKS, {}, (message) => ignored.push(message));
  const why =
    'Kubernetes sets this variable in every pod of a namespace with a Service named gatehouse; enableServiceLinks: false in the pod prevents it';
  expect(ignored.toSorted()).toEqual([
    `GATEHOUSE_PORT=tcp://10.96.0.9:443 is not used as --port: ${why}`,
    `GATEHOUSE_SERVICE_PORT=443 is not used as --service-port: ${why}`,
  ]);
});

test('a variable of the user next to such a Service is used, or refused with an alternative', () => {
  expect(resolveConfigOf('serve', {}, { ...LINKS, GATEHOUSE_PORT: '9443' }).port).toBe(9_443);
  expect(resolveConfigOf('serve', { 'service-port': '8443' }, LINKS, { port: '9443' })).toMatchObject({
    port: 9_443,
    servicePort: 8_443,
  });
  expect(() => resolveConfigOf('serve', {}, { GATEHOUSE_SERVICE_PORT: '8443' })).toThrow(
    'GATEHOUSE_SERVICE_PORT cannot set --service-port: Kubernetes sets this variable in every pod of a namespace with a Service named ' +
      'gatehouse; use the flag, or service-port in the file of --config',
  );
});

test('an address of a Service in a flag or a file is refused, and the error says where it comes from', () => {
  const refusal =
    '--port: "tcp://10.96.0.9:443" is not a port (0 to 65535); it is the address that Kubernetes gives pods for a Service, in <SERVICE>_PORT';
  const port = 'tcp://10.96.0.9:443';
  expect(() => resolveConfigOf('webhook', { port }, {})).toThrow(refusal);
  expect(() => resolveConfigOf('webhook', {}, {}, { port })).toThrow(refusal);
});

test.each(['host', 'identity', 'kubeconfig', 'client-ca'] as const)(
  'so is one in --%s, which is any text',
  (name) => {
    expect(() => resolveConfigOf('serve', { [name]: 'tcp://10.96.0.9:443' }, {})).toThrow('<SERVICE>_PORT');
  },
);

test('an empty variable counts as absent, and no port is empty', () => {
  const empty = { GATEHOUSE_PORT: '', GATEHOUSE_OPERATIONS_PORT: '', GATEHOUSE_IDENTITY: '' };
  expect(resolveConfigOf('serve', {}, empty)).toEqual(resolveConfigOf('serve', {}, {}));
  for (const port of ['', ' ', '0x20fb', '1e3', '-1', '65536'])
    expect(() => resolveConfigOf('serve', { port }, {})).toThrow('is not a port');
});

test('every other setting has a variable', () => {
  expect(NAMES.filter((name) => environmentName(name) === undefined)).toEqual(['service-port']);
});

test('processes share a file and an environment: each reads only its own settings', () => {
  const wrong = (names: readonly SettingName[]) => Object.fromEntries(names.map((name) => [name, 'wrong']));
  const variables = (names: readonly SettingName[]) =>
    Object.fromEntries(names.map((name) => [environmentName(name) ?? '', 'wrong']));
  for (const command of ['webhook', 'controllers'] as const) {
    const foreign = NAMES.filter((name) => !settingsOf(command).has(name));
    expect(resolveConfigOf(command, {}, variables(foreign), wrong(foreign))).toEqual(
      resolveConfigOf(command, {}, {}),
    );
    expect(() => resolveConfigOf(command, {}, variables(['log-level']))).toThrow('--log-level');
  }
});
