// @ts-check
import js from '@eslint/js';
import tseslint from 'typescript-eslint';

import { noCycles } from './scripts/eslint/no-cycles.js';

/**
 * The import arrows of ARCHITECTURE.md: which rooms a room may import. Everything not listed is refused.
 * @type {Record<string, readonly string[]>}
 */
const arrows = {
  json: [],
  cel: ['json'],
  api: ['json'],
  admission: ['cel', 'json', 'api'],
  pki: ['json', 'api'],
  restore: ['cel', 'json', 'api'],
  controllers: ['admission', 'json', 'api'],
  kube: ['json'],
  config: ['api'],
  tracing: [],
  server: ['admission', 'api', 'json', 'tracing'],
  machinery: ['cel', 'json', 'api'],
  sandbox: ['machinery', 'cel', 'json', 'api'],
  runtime: [
    'admission',
    'controllers',
    'pki',
    'restore',
    'cel',
    'json',
    'api',
    'kube',
    'config',
    'tracing',
    'server',
  ],
  processes: ['runtime', 'admission', 'restore', 'json', 'api', 'kube', 'config', 'server'],
};

/**
 * One owner per package: the only rooms in which it may be imported.
 * @type {Record<string, readonly string[]>}
 */
const owners = {
  'node-forge': ['pki'],
  '@kubernetes/client-node': ['kube'],
  undici: ['kube'],
  fastify: ['server'],
  'prom-client': ['server'],
  pino: ['runtime', 'processes', 'cli'],
  commander: ['cli'],
  typebox: ['api'],
  yaml: ['cli', 'sandbox'],
  ajv: ['admission', 'machinery'],
  'ajv-formats': ['admission', 'machinery'],
  re2js: ['cel'],
  pbf: ['sandbox'],
  'tar-stream': ['cli'],
  marked: [],
  '@opentelemetry/api': ['tracing'],
  '@opentelemetry/core': ['tracing'],
  '@opentelemetry/resources': ['tracing'],
  '@opentelemetry/sdk-trace': ['tracing'],
  '@opentelemetry/exporter-trace-otlp-proto': ['tracing'],
};

const rooms = [...Object.keys(arrows), 'cli'];

/** Node's own modules that reach the outside world; the pure rooms see none of them. */
const outsideWorld = [
  'fs',
  'fs/promises',
  'tls',
  'http',
  'https',
  'http2',
  'dns',
  'os',
  'process',
  'child_process',
  'timers',
  'timers/promises',
  'worker_threads',
  'dgram',
];
const pureRooms = ['json', 'cel', 'api', 'machinery', 'admission', 'controllers', 'pki', 'restore'];

/** @param {string} room */
function restrictions(room) {
  const allowed = arrows[room];
  const foreignRooms =
    allowed === undefined ? [] : rooms.filter((other) => other !== room && !allowed.includes(other));
  const foreignPackages = Object.entries(owners)
    .filter(([, owning]) => !owning.includes(room))
    .map(([name]) => name);
  return {
    patterns: [
      ...foreignRooms.map((other) => ({
        regex: `^(\\.\\./)+${other}/`,
        message: `${room}/ may not import ${other}/: see the import arrows in ARCHITECTURE.md.`,
      })),
      { regex: '^(\\.\\./)+(test|scripts)/', message: 'src/ does not import tests or scripts.' },
      ...(pureRooms.includes(room)
        ? [
            { regex: `^node:(${outsideWorld.join('|')})$`, message: `${room}/ is pure: it does no I/O.` },
            {
              ...{ regex: '^node:net$', allowImportNames: ['isIP', 'isIPv4', 'isIPv6'] },
              message: `${room}/ is pure: it does no I/O.`,
            },
          ]
        : []),
    ],
    paths: foreignPackages.map((name) => ({
      name,
      message: `${name} belongs to ${owners[name]?.join(', ') || 'scripts'}: see "one owner per package" in ARCHITECTURE.md.`,
    })),
  };
}

export default tseslint.config(
  { ignores: ['dist/', 'dist-executable/', 'coverage/'] },
  js.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    // One program for each tsconfig.json: the project service takes three times as long for all files.
    languageOptions: {
      parserOptions: {
        project: ['tsconfig.json', 'deploy/examples/*/tsconfig.json'],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      '@typescript-eslint/consistent-type-imports': 'error',
      // A callback may be one call: `() => queue.add(key)`.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/no-unnecessary-condition': ['error', { allowConstantLoopConditions: true }],
      // `erasableSyntaxOnly`: there are no enums. These rules take an eighth of the time.
      '@typescript-eslint/no-unsafe-enum-assignment': 'off',
      '@typescript-eslint/no-unsafe-enum-comparison': 'off',
      'no-restricted-syntax': [
        'error',
        {
          selector: 'ExportDefaultDeclaration',
          message: 'Named exports only; a handler module is the one exception.',
        },
      ],
    },
  },
  {
    // A handler module is what the user writes: a default export, and tests without ceremony.
    files: [
      'deploy/examples/handler/**/*.ts',
      'deploy/examples/*/controllers/*.ts',
      'scripts/bench/tutorials/*/controllers/*.ts',
    ],
    rules: { 'no-restricted-syntax': 'off', '@typescript-eslint/no-floating-promises': 'off' },
  },
  ...rooms.map((room) => ({
    files: [`src/${room}/**/*.ts`],
    ignores: ['**/*.test.ts'],
    rules: { 'no-restricted-imports': ['error', restrictions(room)] },
  })),
  {
    files: ['src/cli/**/*.ts'],
    ignores: [
      'src/cli/sandbox/**',
      'src/cli/generate/**',
      'src/cli/review/**',
      'src/cli/restore/rehearse/**',
      '**/*.test.ts',
    ],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          ...restrictions('cli'),
          patterns: [
            ...restrictions('cli').patterns,
            {
              regex: '^(\\.\\./)+(sandbox|machinery)/',
              message:
                'Only cli/sandbox/, cli/generate/, cli/review/ and cli/restore/rehearse/ import sandbox/ or machinery/.',
            },
          ],
        },
      ],
    },
  },
  {
    files: ['src/cli/generate/**/*.ts', 'src/cli/review/**/*.ts', 'src/cli/restore/rehearse/**/*.ts'],
    ignores: ['**/*.test.ts'],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          ...restrictions('cli'),
          patterns: [
            ...restrictions('cli').patterns,
            {
              regex: '^(\\.\\./)+sandbox/',
              message:
                'cli/generate/, cli/review/ and cli/restore/rehearse/ need machinery/ only: no server.',
            },
          ],
        },
      ],
    },
  },
  {
    files: ['src/**/*.ts'],
    ignores: ['**/*.test.ts'],
    plugins: { gatehouse: { rules: { 'no-cycles': noCycles } } },
    rules: { 'gatehouse/no-cycles': 'error' },
  },
  {
    files: pureRooms.map((room) => `src/${room}/**/*.ts`),
    ignores: ['**/*.test.ts'],
    rules: {
      'no-restricted-globals': [
        'error',
        ...['process', 'setTimeout', 'setInterval', 'setImmediate', 'fetch', 'console', 'performance'].map(
          (name) => ({
            name,
            message: 'A pure room takes time, randomness and lookups as arguments.',
          }),
        ),
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: 'Take `now` as an argument.' },
        { object: 'Math', property: 'random', message: 'Take randomness as an argument.' },
      ],
    },
  },
  { files: ['*.config.*', 'eslint.config.js'], rules: { 'no-restricted-syntax': 'off' } },
  { files: ['**/*.js'], ...tseslint.configs.disableTypeChecked },
);
