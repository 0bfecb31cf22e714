# Runs a formula as Homebrew would: ruby formula.rb FORMULA CPU DIRECTORY PREFIX
#
# It prints the address and the checksum for that CPU, runs install in DIRECTORY, which is the unpacked
# archive, and then the formula's own test. Of Homebrew it knows what the formula uses, and nothing else.
require "fileutils"

FORMULA, CPU, SOURCE, PREFIX = ARGV

# A directory below the prefix into which a formula installs.
class Place
  def initialize(path) = @path = File.join(PREFIX, path)
  def to_s = @path

  def install(*files)
    FileUtils.mkdir_p(@path)
    files.flatten.flat_map { |f| f.is_a?(Hash) ? f.to_a : [[f, File.basename(f)]] }.each do |from, to|
      raise "nothing to install in #{@path}" unless File.file?(from)
      FileUtils.cp(from, File.join(@path, to))
    end
    raise "nothing to install in #{@path}" if files.flatten.empty?
  end
end

class Formula
  PLACES = { bin: "bin", man1: "share/man/man1", bash_completion: "etc/bash_completion.d", zsh_completion: "share/zsh/site-functions",
             fish_completion: "share/fish/vendor_completions.d", doc: "share/doc/sandbox" }.freeze
  PLACES.each { |name, path| define_method(name) { Place.new(path) } }

  class << self
    attr_reader :facts, :tested

    def value(name, *given) = given.empty? ? @facts[name] : (@facts ||= {})[name] = given.first
    %i[desc homepage version license url sha256].each { |name| define_method(name) { |*given| value(name, *given) } }
    def depends_on(what) = value(:depends_on, what)
    def on_linux = yield
    def on_intel = (yield if CPU == "amd64")
    def on_arm = (yield if CPU == "arm64")
    def test(&block) = @tested = block
  end

  def version = self.class.version
  def shell_output(command) = IO.popen(command, &:read).tap { raise "#{command}: #{$?}" unless $?.success? }
  def assert_match(want, got) = got.include?(want) || raise("#{want.inspect} is not in #{got.inspect}")
end

load FORMULA
%i[desc homepage version license url sha256 depends_on].each { |name| raise "no #{name}" unless Sandbox.facts[name] }
raise "it is for Linux only" unless Sandbox.facts[:depends_on] == :linux
puts Sandbox.facts[:url], Sandbox.facts[:sha256]
Dir.chdir(SOURCE)
formula = Sandbox.new
formula.install
formula.instance_eval(&Sandbox.tested)
