import { describe, expect, test } from 'vitest';
import type { ApiObject } from '../api-object.ts';
import { parseFieldSelector, parseLabelSelector } from './selectors.ts';

describe('label selectors', () => {
  const labels = { app: 'web', tier: '', size: '12', in: 'notin', constructor: 'x' };

  test.each([
    ['', true],
    ['app = web , size', true],
    ['none notin (db)', true],
    ['app notin (web,db)', false],
    ['tier=', true],
    ['tier in (a,,b)', true],
    ['!none,app', true],
    ['size>11', true],
    ['app>1', false],
    ['none<1', false],
    ['in in (notin)', true],
    ['constructor=x', true],
    ['hasOwnProperty!=x', true],
  ])('%j: %s', (selector, selected) => {
    expect(parseLabelSelector(selector)(labels)).toBe(selected);
  });
});

describe('field selectors', () => {
  const object: ApiObject = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'db', namespace: 'prod' },
  };
  const metadata = {
    'metadata.name': (one: ApiObject) => one.metadata.name ?? '',
    'metadata.namespace': (one: ApiObject) => one.metadata.namespace ?? '',
  };
  const fields = { ...metadata, type: () => 'a,b=c\\d' };

  test.each([
    ['', true],
    ['metadata.name=db', true],
    ['metadata.name!=db', false],
    ['=,metadata.name=db', true],
    ['type=a\\,b\\=c\\\\d', true],
    ['type!=a\\,b', true],
    ['type=', false],
  ])('%j: %s', (selector, selected) => {
    expect(parseFieldSelector(selector, fields)(object)).toBe(selected);
  });
});
