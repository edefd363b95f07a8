/** The command line. */
import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import { parse } from 'yaml';

import { ConfigError, environmentName, resolveConfig, type Config, type Source } from '../config/config.ts';
import { SETTINGS, type SettingName } from '../config/settings.ts';
import { addCompletion } from './completion/command.ts';
import { addDoctor } from './inspect/doctor/command.ts';
import { programName } from './program-name.ts';
import { addRestore } from './restore/command.ts';
import { addReview } from './review/command.ts';
import { sentenceOf } from '../json/error-message.ts';
import { addStatus } from './inspect/status/command.ts';
import { VERSION } from '../config/version.ts';
import { useCompileCache } from './terminal/compile-cache.ts';

const NAMES = Object.keys(SETTINGS).filter((name): name is SettingName => name in SETTINGS);

/** Runs the command that `argv` names. Errors of the user end in a sentence and exit code 2, never in a stack. */
export async function run(argv: readonly string[]): Promise<void> {
  try {
    await createProgram(programName(argv[1])).parseAsync([...argv]);
  } catch (error) {
    // Not program.error: how the command is used has nothing to do with it.
    console.error(`error: ${sentenceOf(error)}`);
    process.exit(1);
  }
}

/** All commands, none of them run yet. */
export function createProgram(name: string): Command {
  const program = new Command(name)
    .description('Admission webhooks, serving certificates and restore mode for Kubernetes')
    .version(VERSION)
    .showHelpAfterError()
    .configureHelp({ sortOptions: true });
  const command = program
    .command('serve')
    .description('run one replica against a cluster')
    .option('--config <file>', 'YAML file with settings, named as the flags are')
    .addHelpText('after', SERVE_HELP);
  for (const name of NAMES) command.addOption(toOption(name));
  command.action(async (options: Readonly<Record<string, string | undefined>>) => {
    const config = configFrom(options, program);
    // Each command loads what it needs: a replica in a cluster has no use for the sandbox.
    const { serve } = await import('./serve.ts');
    await serve(config);
  });
  addCompletion(program);
  addDoctor(program);
  addManifests(program);
  addRestore(program);
  addReview(program);
  addSandbox(program);
  addStatus(program);
  return program;
}

const SERVE_HELP = `
Examples:
  gatehouse serve                                          in a Pod, by its ServiceAccount
  gatehouse serve --config gatehouse.yaml                  settings from a file; flags and variables go before it
  gatehouse serve --handlers ./handlers --log-level debug  with handlers of your own
  gatehouse serve --dev-url https://192.0.2.10:8443        from your machine, for the cluster of the current context

Exit code: 0 it was told to end, 1 it failed, 2 a setting is wrong.`;

const MANIFESTS_HELP = `
Examples:
  gatehouse manifests --handlers ./handlers | kubectl apply -f -

Exit code: 0 it was printed, 1 a handler cannot be loaded, 2 wrong usage.`;

const SANDBOX_HELP = `
Examples:
  gatehouse sandbox                           with a tour in the cluster
  gatehouse sandbox --no-tour --data ./state  empty, and kept for the next time
  gatehouse sandbox --handlers ./handlers     with handlers of your own

Exit code: 0 it was told to end, 1 it failed, 2 wrong usage.`;

function addManifests(program: Command): void {
  program
    .command('manifests')
    .description('print what a cluster needs beside deploy/ for these handlers (YAML)')
    .addOption(toOption('handlers'))
    .addOption(toOption('namespace'))
    .addHelpText('after', MANIFESTS_HELP)
    .action(async (options: Readonly<Record<string, string | undefined>>) => {
      const config = configFrom(options, program);
      const { manifests } = await import('./manifests.ts');
      process.stdout.write(await manifests(config, process.cwd()));
      // A handler may have started timers or connections when it was loaded.
      process.exit(0);
    });
}

interface SandboxFlags {
  readonly port: number;
  readonly data?: string;
  readonly quiet?: boolean;
  readonly tour: boolean;
  readonly handlers?: string;
}

function addSandbox(program: Command): void {
  program
    .command('sandbox')
    .description(
      'try everything without a cluster: an in-memory Kubernetes API, Gatehouse against it, and a tour',
    )
    .option('--port <number>', 'port of the API on loopback; 0 chooses a free one', portNumber, 0)
    .option('--data <folder>', 'keep everything in this folder, and go on from there next time')
    .option('--handlers <folder>', 'folder with handlers in TypeScript, or a package that exports them')
    .option('--quiet', 'print nothing but the path of the kubeconfig')
    .option('--no-tour', 'do not tell the story, and leave the cluster empty')
    .addHelpText('after', SANDBOX_HELP)
    .action(async ({ port, data, handlers, quiet = false, tour }: SandboxFlags) => {
      const stopping = new AbortController();
      for (const name of ['SIGINT', 'SIGTERM'] as const)
        process.once(name, () => {
          stopping.abort();
        });
      // A shell pipe that has seen enough: there is nobody left to tell the story to.
      process.stdout.on('error', () => {
        stopping.abort();
      });
      useCompileCache();
      const { sandbox } = await import('./sandbox/sandbox.ts');
      await sandbox({ port, data, handlers, quiet, tour: tour && !quiet }, stopping.signal);
    });
}

function portNumber(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw new InvalidArgumentError(`"${text}" is not a port (0 to 65535).`);
}

function toOption(name: SettingName): Option {
  const { description, default: fallback, bare } = SETTINGS[name];
  const shown = fallback === undefined ? '' : ` (default: ${fallback})`;
  const text = `${description}${shown} [${environmentName(name)}]`;
  return bare === undefined
    ? new Option(`--${name} <value>`, text)
    : new Option(`--${name} [value]`, text).preset(bare);
}

function configFrom(options: Readonly<Record<string, string | undefined>>, program: Command): Config {
  const flags: Source = Object.fromEntries(
    NAMES.flatMap((name) => {
      const value = options[camelCase(name)];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  const { config: file } = options;
  try {
    return resolveConfig(flags, process.env, file === undefined ? {} : readConfigFile(file));
  } catch (error) {
    if (error instanceof ConfigError) program.error(error.message, { exitCode: 2 });
    throw error;
  }
}

/** @throws ConfigError when the file cannot be read or says something that no setting is called. */
function readConfigFile(path: string): Source {
  const content = parseFile(path);
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new ConfigError(`--config: ${path} is not a map of settings`);
  }
  const unknown = Object.keys(content).filter((key) => !Object.hasOwn(SETTINGS, key));
  if (unknown.length > 0) {
    throw new ConfigError(
      `--config: ${path} has ${unknown.join(', ')}, but there are only ${NAMES.join(', ')}`,
    );
  }
  return Object.fromEntries(Object.entries(content).map(([key, value]) => [key, String(value)]));
}

function parseFile(path: string): unknown {
  try {
    return parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`--config: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

/** What commander calls `--drain-delay`. */
const camelCase = (name: string): string =>
  name.replaceAll(/-([a-z])/g, (_match, letter: string) => letter.toUpperCase());
