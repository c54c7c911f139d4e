// Runs scenarios with jsforce: a JSON line in with the org's url and the steps, a JSON line out with what each step gave.

import { createInterface } from 'node:readline';
import jsforce from 'jsforce';

const VERSION = '59.0';
const CODES = { MULTIPLE_CHOICES: '300' };

// a failed SOAP login has its code in the text only
const inText = (error) => /^([A-Z_]{5,}):/.exec(error.message)?.[1];
const code = (error) => CODES[error.errorCode] ?? error.errorCode ?? inText(error) ?? String(error);
const rowCode = (result) =>
  result.success ? 'ok' : String(result.errors[0].statusCode ?? result.errors[0].errorCode ?? result.errors[0]).split(':')[0];

async function logIn({ url, username, password }) {
  const connection = new jsforce.Connection({ loginUrl: url, version: VERSION });
  await connection.login(username, password);
  connection.instanceUrl = url; // the org speaks plain http
  connection.bulk.pollInterval = 20;
  return connection;
}

// What each step of a scenario is in jsforce. Each returns the words that the test compares.
const steps = {
  async login(connection, step, url) {
    await logIn({ url, ...step });
    return 'ok';
  },
  async create(connection, step) {
    const made = await connection.sobject(step.object).create(step.fields);
    return { id: made.id, result: 'ok' };
  },
  async read(connection, step) {
    const record = await connection.sobject(step.object).retrieve(step.id);
    return step.fields.map((name) => record[name]);
  },
  async update(connection, step) {
    await connection.sobject(step.object).update({ Id: step.id, ...step.fields });
    return 'ok';
  },
  async upsert(connection, step) {
    const { success } = await connection.sobject(step.object).upsert(step.fields, step.key);
    return success ? 'ok' : 'not ok';
  },
  async delete(connection, step) {
    await connection.sobject(step.object).destroy(step.id);
    return 'ok';
  },
  async collection(connection, step) {
    const object = connection.sobject(step.object);
    const options = { allOrNone: step.allOrNone ?? false };
    const results =
      step.operation === 'upsert'
        ? await object.upsert(step.rows, step.key, options)
        : step.operation === 'delete'
          ? await object.destroy(step.ids, options)
          : await object[step.operation](step.rows, options);
    return results.map(rowCode);
  },
  async query(connection, step) {
    const found = await connection.query(step.soql, { autoFetch: true, maxFetch: 10000 });
    return found.records.length || !/COUNT\(\)/.test(step.soql) ? found.records.map(plain) : found.totalSize;
  },
  async bulk1(connection, step) {
    const options = { extIdField: step.key, concurrencyMode: step.serial ? 'Serial' : 'Parallel' };
    const results = await connection.bulk.load(step.object, step.operation, options, step.rows);
    return results.map(rowCode);
  },
  async bulk2(connection, step) {
    let results;
    try {
      results = await connection.bulk2.loadAndWaitForResults({
        object: step.object,
        operation: step.operation,
        ...(step.key ? { externalIdFieldName: step.key } : {}),
        input: step.rows,
        pollTimeout: 60000,
        pollInterval: 20,
      });
    } catch (error) {
      if (/failed/i.test(error.name + error.message)) return 'job failed';
      throw error;
    }
    const by = step.key ?? step.by;
    const became = new Map([
      ...results.successfulResults.map((row) => [row[by], 'ok']),
      ...results.failedResults.map((row) => [row[by], row.sf__Error.split(':')[0]]),
      ...results.unprocessedRecords.map((row) => [row[by], 'unprocessed']),
    ]);
    return step.rows.map((row) => became.get(row[by]));
  },
  async bulk2_query(connection, step) {
    const stream = await connection.bulk2.query(step.soql, { pollTimeout: 60000, pollInterval: 20 });
    return await stream.toArray();
  },
};

function plain(record) {
  const { attributes, ...fields } = record;
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, value && typeof value === 'object' ? plain(value) : value]),
  );
}

function filledIn(value, ids) {
  if (typeof value === 'string' && value.startsWith('$')) return ids[value.slice(1)];
  if (Array.isArray(value)) return value.map((each) => filledIn(each, ids));
  if (value && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, filledIn(each, ids)]));
  }
  return value;
}

async function run({ url, username, password, steps: list }) {
  const connection = await logIn({ url, username, password });
  const ids = {};
  const results = [];
  for (const step of list) {
    try {
      const result = await steps[step.do](connection, filledIn(step, ids), url);
      if (result && result.id && step.as) ids[step.as] = result.id;
      results.push(result && result.id ? result.result : result);
    } catch (error) {
      results.push(code(error));
    }
  }
  return results;
}

for await (const line of createInterface({ input: process.stdin })) {
  const results = await run(JSON.parse(line)).catch((error) => [`no login: ${code(error)}`]);
  process.stdout.write(JSON.stringify(results) + '\n');
}
