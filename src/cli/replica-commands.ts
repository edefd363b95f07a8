/** The command lines of `gatehouse serve` and `gatehouse manifests`, which take the settings of a replica as flags. */
import { readFileSync } from 'node:fs';
import { Option, type Command } from 'commander';
import { parse } from 'yaml';

import { ConfigError, environmentName, resolveConfig, type Config, type Source } from '../config/config.ts';
import { SETTINGS, type SettingName } from '../config/settings.ts';
import { messageOf } from '../json/error-message.ts';

const NAMES = Object.keys(SETTINGS).filter((name): name is SettingName => name in SETTINGS);

type Options = Readonly<Record<string, string | undefined>>;

const SERVE_HELP = `
Examples:
  gatehouse serve                                          in a Pod, with its ServiceAccount
  gatehouse serve --config gatehouse.yaml                  settings from a file; flags and variables take precedence
  gatehouse serve --handlers ./handlers --log-level debug  with custom handlers
  gatehouse serve --dev-url https://192.0.2.10:8443        from a developer machine, for the cluster of the current context

Exit code: 0 stopped by a signal, 1 failure, 2 invalid setting.`;

export function addServe(program: Command): void {
  const command = program
    .command('serve')
    .description('run one replica against a cluster')
    .option('--config <file>', 'YAML file with settings; the keys are the names of the flags')
    .addHelpText('after', SERVE_HELP);
  for (const name of NAMES) command.addOption(toOption(name));
  command.action(async (options: Options) => {
    const config = configFrom(options, program);
    const { serve } = await import('./serve.ts');
    await serve(config);
  });
}

const MANIFESTS_HELP = `
Examples:
  gatehouse manifests --handlers ./handlers | kubectl apply -f -

Exit code: 0 success, 1 a handler cannot be loaded, 2 wrong usage.`;

export function addManifests(program: Command): void {
  program
    .command('manifests')
    .description('print the manifests that handlers need in addition to deploy/ (YAML)')
    .addOption(toOption('handlers'))
    .addOption(toOption('namespace'))
    .addHelpText('after', MANIFESTS_HELP)
    .action(async (options: Options) => {
      const config = configFrom(options, program);
      const { manifests } = await import('./manifests.ts');
      process.stdout.write(await manifests(config, process.cwd()));
      // A handler may have started timers or connections when it was loaded.
      process.exit(0);
    });
}

function toOption(name: SettingName): Option {
  const { description, default: fallback, bare } = SETTINGS[name];
  const shown = fallback === undefined ? '' : ` (default: ${fallback})`;
  const text = `${description}${shown} [${environmentName(name)}]`;
  return bare === undefined
    ? new Option(`--${name} <value>`, text)
    : new Option(`--${name} [value]`, text).preset(bare);
}

function configFrom(options: Options, program: Command): Config {
  const flags: Source = Object.fromEntries(
    NAMES.flatMap((name) => {
      const value = options[toOption(name).attributeName()];
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

/** @throws ConfigError when the file cannot be read, or has a key that is not a setting */
function readConfigFile(path: string): Source {
  let content: unknown;
  try {
    content = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`--config: ${messageOf(error)}`, { cause: error });
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content))
    throw new ConfigError(`--config: ${path} is not a map of settings`);
  const unknown = Object.keys(content).filter((key) => !Object.hasOwn(SETTINGS, key));
  if (unknown.length > 0)
    throw new ConfigError(
      `--config: ${path} has unknown settings ${unknown.join(', ')}; known settings: ${NAMES.join(', ')}`,
    );
  return Object.fromEntries(Object.entries(content).map(([key, value]) => [key, String(value)]));
}
