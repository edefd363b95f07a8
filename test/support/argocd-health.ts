/** Runs the health checks of deploy/argocd in a Lua interpreter, as Argo CD does. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LuaFactory } from 'wasmoon';
import { parse } from 'yaml';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { runTool } from './go-programs.ts';

const PATCH = join(import.meta.dirname, '..', '..', 'deploy', 'argocd', 'argocd-cm.yaml');
const PREFIX = 'resource.customizations.health.gatehouse.dev_';

export function healthChecks(): ReadonlyMap<string, string> {
  const { data } = parse(readFileSync(PATCH, 'utf8')) as { data: Record<string, string> }; // its keys are checked below
  return new Map(
    Object.entries(data).map(([key, script]) => {
      if (!key.startsWith(PREFIX)) throw new Error(`${key} is not a health check of Gatehouse`);
      return [key.slice(PREFIX.length), script];
    }),
  );
}

export async function argoHealth(object: KubeObject): Promise<{ status: string; message: string }> {
  const script = healthChecks().get(object.kind ?? '');
  if (script === undefined) throw new Error(`deploy/argocd lacks a health check for ${object.kind ?? ''}`);
  const lua = await new LuaFactory().createEngine();
  try {
    const run = `local obj = ${luaOf(object)}\nlocal check = function()\n${script}\nend\nlocal hs = check()\nreturn hs.status .. "\\n" .. hs.message`;
    const [status = '', ...message] = String(await lua.doString(run)).split('\n');
    return { status, message: message.join('\n') };
  } finally {
    lua.global.close();
  }
}

/** A Lua expression: Argo CD also hands tables to the script. */
function luaOf(value: unknown): string {
  if (value === undefined || value === null) return 'nil';
  if (Array.isArray(value)) return `{${value.map(luaOf).join(',')}}`;
  if (typeof value === 'object')
    return `{${Object.entries(value)
      .map(([key, inner]) => `[${luaOf(key)}]=${luaOf(inner)}`)
      .join(',')}}`;
  if (typeof value !== 'string') return JSON.stringify(value);
  const escaped = [...new TextEncoder().encode(value)].map((byte) => `\\${String(byte).padStart(3, '0')}`);
  return `"${escaped.join('')}"`;
}

export type KStatus = 'Current' | 'Failed' | 'InProgress' | 'Terminating';

export async function kstatus(objects: readonly KubeObject[]): Promise<readonly KStatus[]> {
  const printed = await runTool('kstatus', [], objects.map((object) => JSON.stringify(object)).join('\n'));
  return printed
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { readonly status: KStatus }).status); // test/go/tools/kstatus
}
