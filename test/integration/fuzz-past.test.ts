/**
 * The fuzz targets with a few generated inputs, of which `npm run fuzz` tries many, and with each line of
 * test/fuzz/past.jsonl, which is an input that failed. One finding depends on earlier parses (V8 confused keys with
 * escapes): src/json/json.test.ts covers it.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

import { isJsonObject, parseJson, type JsonObject, type JsonValue } from '../../src/json/json.ts';
import { ALL_TARGETS } from '../fuzz/all-targets.ts';

const past: readonly JsonObject[] = readFileSync(new URL('../fuzz/past.jsonl', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => parseJson(line))
  .filter(isJsonObject);

const textOf = (value: JsonValue | undefined): string => (typeof value === 'string' ? value : '');

test.each(past.map(({ target, why, input }) => [textOf(target), textOf(why), input ?? null] as const))(
  '%s: %s',
  async (name, why, input: JsonValue) => {
    const target = ALL_TARGETS.find((each) => each.name === name);
    if (target === undefined) throw new Error(`there is no target ${name}`);
    expect(why).not.toBe('');
    await target.again(input);
  },
);

const SEED = Number(process.env.GATEHOUSE_SEED ?? Date.now() % 2 ** 31);

test.each(ALL_TARGETS)(
  `$name: the properties hold for generated inputs, seed ${SEED}`,
  async ({ share, run }) => {
    const { failure } = await run(10 * share, SEED);
    expect(failure).toBeUndefined();
  },
);
