import { expect, test } from 'vitest';

import { cells, created } from '../../../../test/support/sandbox/built-in-objects.ts';

const INGRESS = 'networking.k8s.io/v1 Ingress';
const rules = (...hosts: readonly string[]) => hosts.map((host) => ({ host }));

test.each([
  [{ rules: [{}] }, {}, ['<none>', '*', '', '80']],
  [
    { ingressClassName: 'nginx', rules: rules('a.example.com'), tls: [{ secretName: 'a' }] },
    { loadBalancer: { ingress: [{ ip: '192.0.2.1' }, { hostname: 'lb.example.com' }] } },
    ['nginx', 'a.example.com', '192.0.2.1,lb.example.com', '80, 443'],
  ],
  [{ rules: rules('a', 'b', 'c', 'd', 'e') }, {}, ['<none>', 'a,b,c + 2 more...', '', '80']],
])('%j is printed as kubectl prints it', (spec, status, expected) => {
  expect(Object.values(cells(INGRESS, { ...created(INGRESS, { spec }), ...{ status } }))).toEqual(expected);
});
