# Sidekiq: a separate process runs jobs from two queues, with delays, retries and bulk pushes.

require "sidekiq"
require "sidekiq/api"

# Silence the warning at each call: Debian's redis gem is newer than this Sidekiq expects.
Redis.silence_deprecations = true

URL = ENV["PROGRAM_URL"] ||= ARGV.fetch(0)
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.configure_server do |config|
  config.redis = { url: URL }
  # The interval in seconds at which Sidekiq checks for due jobs.
  config.options[:poll_interval_average] = 0.2
  config.logger.level = Logger::FATAL
end

# Stores a sum in Redis, where the other process can read it.
class Add
  include Sidekiq::Worker

  def perform(name, one, two)
    Sidekiq.redis { |redis| redis.hset("sums", name, one + two) }
  end
end

# Fails at the first attempt.
class FailOnce
  include Sidekiq::Worker
  sidekiq_options queue: "low", retry: 2
  sidekiq_retry_in { 1 }

  def perform
    attempts = Sidekiq.redis { |redis| redis.incr("attempts") }
    raise "the first time" if attempts < 2
  end
end

# Fails, and moves to the dead set.
class Fail
  include Sidekiq::Worker
  sidekiq_options retry: 0

  def perform
    raise "always"
  end
end

def check(holds, words)
  abort(words) unless holds
end

# Polls until a condition holds, because no event announces the condition.
def eventually(words)
  last = Time.now + 20
  until yield
    check(Time.now < last, "not in time: #{words}")
    sleep(0.02)
  end
end

def sum(name)
  Sidekiq.redis { |redis| redis.hget("sums", name) }
end

def main
  numbers = (0...20).map { |number| ["n#{number}", number, 1] }
  check(Add.perform_bulk(numbers).length == 20, "jobs are missing")
  check(Sidekiq::Queue.new.size == 20, "the queue is not as long as it should be")
  Sidekiq::Queue.new.find { |job| job.args[0] == "n19" }.delete
  worker = Process.spawn("sidekiq", "--require", File.expand_path(__FILE__), "--concurrency", "4",
                         "--queue", "default,2", "--queue", "low", %i[out err] => File::NULL)
  begin
    eventually("the sums") { (0...19).all? { |number| sum("n#{number}") == (number + 1).to_s } }
    check(sum("n19").nil?, "a job that was deleted ran")
    begun = Time.now
    Add.perform_in(1, "later", 20, 22)
    cancelled = Add.perform_in(3600, "cancelled", 1, 1)
    check(Sidekiq::ScheduledSet.new.find_job(cancelled).delete, "a job was not cancelled")
    FailOnce.perform_async
    Fail.perform_async
    eventually("the second attempt") { Sidekiq.redis { |redis| redis.get("attempts") } == "2" }
    eventually("the dead job") { Sidekiq::DeadSet.new.size == 1 }
    eventually("the later job") { sum("later") == "42" }
    check(Time.now - begun >= 1, "the later job ran early")
    eventually("the account") { Sidekiq::Stats.new.processed == 23 }
    check(Sidekiq::ProcessSet.new.size == 1, "the process is not known")
    check(Sidekiq::ScheduledSet.new.size.zero?, "a job is left")
  ensure
    Process.kill("TERM", worker)
    Process.wait(worker)
  end
end

main if $PROGRAM_NAME == __FILE__
