import { expect, test } from 'vitest';

import { pathTemplate } from './tracing.ts';

test.each([
  ['/api/v1', '/api/v1'],
  ['/apis/infra.example.com/v1', '/apis/infra.example.com/v1'],
  ['/api/v1/nodes', '/api/v1/nodes'],
  ['/api/v1/nodes/n1/status', '/api/v1/nodes/{name}/status'],
  ['/api/v1/namespaces/shop', '/api/v1/namespaces/{name}'],
  ['/api/v1/namespaces/shop/finalize', '/api/v1/namespaces/{name}/finalize'],
  ['/api/v1/namespaces/shop/secrets', '/api/v1/namespaces/{namespace}/secrets'],
  ['/api/v1/namespaces/shop/secrets/tls', '/api/v1/namespaces/{namespace}/secrets/{name}'],
  ['/apis/a.b/v1/namespaces/shop/racks/r/status', '/apis/a.b/v1/namespaces/{namespace}/racks/{name}/status'],
  ['/apis/a.b/v1/servers/s', '/apis/a.b/v1/servers/{name}'],
])('the path %s has the template %s', (path, template) => {
  expect(pathTemplate(path)).toBe(template);
});
