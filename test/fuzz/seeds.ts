/** Valid inputs: the seeds for mutations. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { parseJson, type JsonObject, type JsonValue } from '../../src/json/json.ts';

const data = (name: string) => readFileSync(join(import.meta.dirname, '..', 'data', name), 'utf8');

/** Request bodies recorded from kube-apiserver 1.37. */
export const recordedReviews: readonly string[] = data('admission-reviews-1.37.jsonl')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => (JSON.parse(line) as { readonly body: string }).body); // our own file

interface Corpus {
  /** The values of the variables. The recorded object's name was `e` and a number. */
  readonly bindings: JsonObject & { readonly object: JsonObject };
  readonly cases: readonly {
    readonly expression: string;
    readonly result?: boolean;
    readonly error?: string;
    readonly compileError?: string;
  }[];
}

/** Expressions that kube-apiserver 1.37 has evaluated. */
export const corpus = parseJson(data('cel-corpus-1.37.json')) as unknown as Corpus; // our own file
export const corpusExpressions: readonly string[] = corpus.cases.map(({ expression }) => expression);

/** Its result is deliberately different: cel-corpus.test.ts gives the reason. */
const DIFFERENT = 'object.spec.enabled';

/** The expressions and the results of kube-apiserver. For a compile error, the message is not compared. */
export const corpusCases: readonly { readonly expression: string; readonly answer: JsonValue }[] =
  corpus.cases
    .filter(({ expression }) => expression !== DIFFERENT)
    .map(({ expression, result, error, compileError }) => ({
      expression,
      answer:
        compileError !== undefined
          ? { compileError: true }
          : error === undefined
            ? { result: result === true }
            : { error },
    }));

export const SERVER: JsonObject = {
  apiVersion: 'infra.example.com/v1',
  kind: 'Server',
  metadata: {
    name: 'web-1',
    namespace: 'store',
    uid: '5a0d9f5e-7a64-4c4a-9f0e-0a2b7d1f3c11',
    labels: { team: 'hardware', 'example.com/a~b/c': '' },
    annotations: { 'example.com/note': 'line\nbreak', constructor: 'x' },
    ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'a', uid: 'u', controller: true }],
    finalizers: ['example.com/keep'],
  },
  spec: {
    datacenter: 'fra1',
    serial: 9007199254740993n,
    units: 2,
    slots: [1, 2, 3, 4],
    disks: [
      { name: 'a', class: 'nvme', sizeGiB: 960 },
      { name: 'b', class: 'hdd', sizeGiB: 12_000 },
    ],
    note: 'aaaa',
    code: 'aa',
    nested: { list: [[1], [], [{ x: null }]], empty: {}, flag: false },
  },
  status: { phase: 'Ready' },
};
